"""Nothing is loaded that the call at hand does not need."""

import subprocess
import sys

import pytest

import heddle.models


def loaded_by(code: str) -> set[str]:
    """The modules that ``code`` loads in an interpreter of its own."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


def test_the_package_itself_loads_nothing() -> None:
    loaded = loaded_by("import heddle.models")

    assert not {"trio", "ssl", "httptools", "msgspec", "heddle.spec"} & loaded


def test_errors_are_known_without_a_transport() -> None:
    loaded = loaded_by("from heddle.models import ModelError, ModelRateLimited")

    assert not {"trio", "ssl", "httptools"} & loaded


def test_the_client_loads_no_documents_dates_or_schemas() -> None:
    loaded = loaded_by("from heddle.models import ModelClient, HttpEndpoint")

    assert "httptools" in loaded
    assert not {"heddle.spec", "email.utils", "email", "jsonschema", "yaml"} & loaded


@pytest.mark.parametrize("name", heddle.models.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(heddle.models, name) is not None


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = heddle.models.Nothing
