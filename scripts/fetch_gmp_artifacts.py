"""Downloads the GMPs' contracts, and a Safe's contracts for the tests, into build/gmp."""

import sys

from bridge.devnet.fetch import ArtifactError, fetch, pinned_packages
from bridge.devnet.paths import GMP_ARTIFACTS

if __name__ == "__main__":
    try:
        fetch(pinned_packages(), GMP_ARTIFACTS, lambda line: print(line, flush=True))
    except ArtifactError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
