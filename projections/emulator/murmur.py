"""MurmurHash3 in its two forms that Cosmos DB hashes partition keys with (Austin Appleby, public domain)."""

from __future__ import annotations

_M64 = 0xFFFFFFFFFFFFFFFF
_M32 = 0xFFFFFFFF
_A64, _B64 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_A32, _B32 = 0xCC9E2D51, 0x1B873593


def _rotl64(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _M64


def _fmix64(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _M64
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _M64
    return value ^ (value >> 33)


def murmur3_128(data: bytes) -> tuple[int, int]:
    """x64 variant, seed 0: the low and the high 64 bits."""
    h1 = h2 = 0
    size = len(data)
    whole = size & ~15
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _rotl64(k1 * _A64 & _M64, 31) * _B64 & _M64
        h1 = (_rotl64(h1, 27) + h2) * 5 + 0x52DCE729 & _M64
        h2 ^= _rotl64(k2 * _B64 & _M64, 33) * _A64 & _M64
        h2 = (_rotl64(h2, 31) + h1) * 5 + 0x38495AB5 & _M64
    k1 = int.from_bytes(data[whole : whole + 8], "little")
    k2 = int.from_bytes(data[whole + 8 :], "little")
    h2 ^= _rotl64(k2 * _B64 & _M64, 33) * _A64 & _M64
    h1 ^= _rotl64(k1 * _A64 & _M64, 31) * _B64 & _M64
    h1 ^= size
    h2 ^= size
    h1 = h1 + h2 & _M64
    h2 = h2 + h1 & _M64
    h1, h2 = _fmix64(h1), _fmix64(h2)
    h1 = h1 + h2 & _M64
    return h1, h2 + h1 & _M64


def murmur3_32(data: bytes) -> int:
    """x86 variant, seed 0."""
    h = 0
    size = len(data)
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _A32 & _M32
        k = ((k << 15) | (k >> 17)) & _M32
        h ^= k * _B32 & _M32
        h = ((h << 13) | (h >> 19)) & _M32
        h = h * 5 + 0xE6546B64 & _M32
    k = int.from_bytes(data[whole:], "little") * _A32 & _M32
    k = ((k << 15) | (k >> 17)) & _M32
    h ^= k * _B32 & _M32
    h ^= size
    h ^= h >> 16
    h = h * 0x85EBCA6B & _M32
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _M32
    return h ^ (h >> 16)
