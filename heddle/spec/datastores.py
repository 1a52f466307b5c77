"""The components that say where records are kept, and how to reach the database."""

from typing import Any, ClassVar, Literal, TypeAlias

from heddle.spec.component import Component, PluginComponent, Secret


class TlsOracleDatabaseConnectionConfig(Component, frozen=True, kw_only=True):
    """An Oracle database over TLS."""

    since: ClassVar[str] = "26.1.2"

    user: Secret
    password: Secret
    dsn: Secret
    config_dir: str | None = None
    protocol: Literal["tcp", "tcps"] = "tcps"


class MTlsOracleDatabaseConnectionConfig(
    TlsOracleDatabaseConnectionConfig, frozen=True, kw_only=True
):
    """An Oracle database over TLS, with a wallet that proves who we are."""

    wallet_location: Secret
    wallet_password: Secret


class TlsPostgresDatabaseConnectionConfig(Component, frozen=True, kw_only=True):
    """A PostgreSQL database over TLS."""

    since: ClassVar[str] = "26.1.2"

    user: Secret
    password: Secret
    url: str
    sslmode: Literal[
        "disable", "allow", "prefer", "require", "verify-ca", "verify-full"
    ] = "require"
    sslcert: str | None = None
    sslkey: str | None = None
    sslrootcert: str | None = None
    sslcrl: str | None = None


AnyOracleConnectionConfig: TypeAlias = (
    TlsOracleDatabaseConnectionConfig | MTlsOracleDatabaseConnectionConfig | PluginComponent
)


class InMemoryCollectionDatastore(Component, frozen=True, kw_only=True):
    """Records in memory. ``datastore_schema`` maps a collection to its JSON Schema."""

    since: ClassVar[str] = "26.1.2"

    datastore_schema: dict[str, dict[str, Any]]


class OracleDatabaseDatastore(Component, frozen=True, kw_only=True):
    """Records in an Oracle database."""

    since: ClassVar[str] = "26.1.2"

    datastore_schema: dict[str, dict[str, Any]]
    connection_config: AnyOracleConnectionConfig


class PostgresDatabaseDatastore(Component, frozen=True, kw_only=True):
    """Records in a PostgreSQL database."""

    since: ClassVar[str] = "26.1.2"

    datastore_schema: dict[str, dict[str, Any]]
    connection_config: TlsPostgresDatabaseConnectionConfig | PluginComponent


AnyDatastore: TypeAlias = (
    InMemoryCollectionDatastore
    | OracleDatabaseDatastore
    | PostgresDatabaseDatastore
    | PluginComponent
)
