"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# A mutation tester runs each test many times in one process, on differing copies of the code.
settings.register_profile(
    "mutants", suppress_health_check=[HealthCheck.differing_executors], deadline=None, database=None
)
