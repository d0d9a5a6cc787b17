"""Books, authors and publishers: the hybrid model.

PROJECTIONS_CATALOG=projections.example.books:catalog. A book is {"id", "shelf", "isbn", "title", "authorIds",
"publisherId", "tags"}, an author {"id", "name", "agencyId"}, a publisher {"id", "name", "city"}, an agency {"id",
"name"}.
"""

from __future__ import annotations

from projections.declare import Catalog, Index, SoftDelete, Source
from projections.embed import Embed, Reference

books = Source(container="books", key="/shelf")
authors = Source(container="authors", key="/id")
publishers = Source(container="publishers", key="/id")
agencies = Source(container="agencies", key="/id")
deleted = SoftDelete("/deleted")

# An author is shown with the name of the agency, which goes into the author's item itself. From there it goes on into
# the books: two levels.
represented = Embed(
    name="authors-with-agency",
    source=authors,
    in_place=True,
    deletes=deleted,
    references={"agency": Reference(source=agencies, id="/agencyId", fields=("name",))},
)

# What a reader sees: the book with the names of those who made it. Reviews and stock stay where they are: by reference.
library = Embed(
    name="library",
    source=books,
    key="/isbn",
    include=("title", "authorIds", "publisherId", "isbn"),
    deletes=deleted,
    references={
        "authors": Reference(source=authors, id="/authorIds/*", fields=("name", "agency"), deletes=deleted),
        "publisher": Reference(source=publishers, id="/publisherId", fields=("name", "city")),
    },
)

# The books of one author: one entry per author and book. And the same by tag.
by_author = Index(
    name="books-by-author",
    source=books,
    key="/authorIds",
    each="/authorIds",
    by="value",
    include=("title",),
    deletes=deleted,
)
by_tag = Index(
    name="books-by-tag", source=books, key="/tags", each="/tags", by="value", include=("title",), deletes=deleted
)

catalog = Catalog(projections=(represented, library, by_author, by_tag))
