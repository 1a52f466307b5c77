"""What joins models and tools to the engine: opened when used, closed on leaving."""

import pytest

from heddle.models import CredentialMissing
from heddle.services import open_models
from heddle.spec import OpenAiCompatibleConfig
from plugins_host import Message, ModelRequest
from tests.support.model_endpoint import model_endpoint

ASK = ModelRequest("m", (Message("user", "hi"),))


async def test_connections_are_kept_between_calls_and_closed_on_leaving() -> None:
    async with model_endpoint() as endpoint:
        llm = OpenAiCompatibleConfig(name="m", model_id="m", url=endpoint.url)
        async with open_models({}) as models:
            for _ in range(2):
                response = await models.chat(llm, ASK, on_text=None)
                assert response.content == "ECHO:hi"
            client = models._client
            assert client is not None
            assert client.open_connections == 1
        assert client.open_connections == 0


async def test_a_credential_is_looked_up_at_the_first_call() -> None:
    llm = OpenAiCompatibleConfig(
        name="m", model_id="m", url="http://127.0.0.1:9", api_key="$SECRET_KEY"
    )
    async with open_models({}) as models:
        models.defaults(llm)
        with pytest.raises(CredentialMissing, match="SECRET_KEY"):
            await models.chat(llm, ASK, on_text=None)


async def test_nothing_is_opened_for_runs_that_call_no_model() -> None:
    async with open_models({}) as models:
        assert models._client is None
