"""A key that is none is refused, and never shown."""

from __future__ import annotations

import pytest

from bridge.sending import InvalidKeyError, LocalSigner


@pytest.mark.parametrize("key", ["", "0x", "0x1234", "zz" * 32, "0x" + "00" * 32, "0x" + "ff" * 32])
def test_a_text_that_is_no_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        LocalSigner.from_key(key)
    assert len(key) < 4 or key not in str(caught.value)
    assert caught.value.__cause__ is None
