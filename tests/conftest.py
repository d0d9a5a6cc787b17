"""For all tests."""

from hypothesis import HealthCheck, settings

# What is random is judged by what it finds, not by how fast a busy machine draws it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
