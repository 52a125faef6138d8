"""Location of the lake: a folder, or a prefix of an S3 bucket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from indexer.model.errors import SettingsError

_SCHEMES: Final = ("s3", "s3a")
_PARAMETERS: Final = ("endpoint", "region")
_EXAMPLE: Final = "s3://bucket/prefix?region=eu-central-1"


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """A folder, or a bucket and prefix.

    It is passed to Spark's tasks, so it contains no secrets; each process has its own credentials.

    Attributes:
        root: the folder's path, or ``s3://bucket/prefix``.
        endpoint: URL of the S3 server; None means AWS.
        region: the bucket's region; None means the client's default.
    """

    root: str
    endpoint: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, setting: str | Path, environment: Mapping[str, str] | None = None) -> StorageLocation:
        """Parses the value of a setting.

        Args:
            setting: a folder, or ``s3://bucket/prefix``, with ``?endpoint=…&region=…`` if they differ from
                AWS's defaults.
            environment: environment variables, of which ``AWS_ENDPOINT_URL`` and ``AWS_REGION`` are used as
                defaults; by default those of this process.

        Raises:
            SettingsError: the setting contains no location, or unknown parts.
        """
        text = str(setting)
        if isinstance(setting, Path) or "://" not in text:
            return cls(text)
        url = urlsplit(text)
        if url.scheme not in _SCHEMES:
            raise SettingsError(
                f"the lake's URL has unsupported scheme {url.scheme!r}; use a folder, or a bucket such as {_EXAMPLE}"
            )
        if not url.netloc or "@" in url.netloc or ":" in url.netloc:
            raise SettingsError(
                f"the lake's URL must consist of s3:// and a bucket, without user or port, such as {_EXAMPLE}"
            )
        parameters = dict(parse_qsl(url.query, keep_blank_values=True))
        if unknown := sorted(parameters.keys() - set(_PARAMETERS)):
            raise SettingsError(
                f"the lake's URL has unknown parameters {', '.join(unknown)}; only {' and '.join(_PARAMETERS)} are allowed. "
                "Credentials come from the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        usual = os.environ if environment is None else environment
        endpoint = parameters.get("endpoint") or usual.get("AWS_ENDPOINT_URL_S3") or usual.get("AWS_ENDPOINT_URL")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise SettingsError(f"endpoint {endpoint!r} of the lake is not a URL such as https://minio.example:9000")
        region = parameters.get("region") or usual.get("AWS_REGION") or usual.get("AWS_DEFAULT_REGION")
        return cls(f"s3://{url.netloc}{url.path.rstrip('/')}", endpoint or None, region or None)

    def __str__(self) -> str:
        return self.root

    def __truediv__(self, name: str) -> StorageLocation:
        return StorageLocation(f"{self.root}/{name}", self.endpoint, self.region)

    def table(self, name: str) -> StorageLocation:
        """Returns the location of a table such as `silver.messages`."""
        layer, _, table = name.partition(".")
        return self / layer / table

    @property
    def uri(self) -> str:
        """Returns the URI for Spark, whose S3 client uses the scheme `s3a`."""
        return self.root.replace("s3://", "s3a://", 1) if self.is_bucket else Path(self.root).absolute().as_uri()

    @property
    def is_bucket(self) -> bool:
        """Whether the location is on S3."""
        return self.root.startswith("s3://")

    @property
    def options(self) -> dict[str, str] | None:
        """Returns the storage options for `deltalake`."""
        if not self.is_bucket:
            return None
        # Conditional puts: if two writers write the same version, the first one succeeds.
        options = {"aws_conditional_put": "etag"}
        if self.region:
            options["aws_region"] = self.region
        if self.endpoint:
            options["aws_endpoint_url"] = self.endpoint
            options["aws_allow_http"] = str(self.endpoint.startswith("http://")).lower()
        return options
