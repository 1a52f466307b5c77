"""What all tests share: no example of a law fails because the machine was busy."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "heddle", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("heddle")
