"""Ed25519 signatures of exports: made with the operator's private key, checked by anybody with the public one. Needs the extra `[sign]`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.errors import ConfigError

MISSING = "Ed25519 needs the extra: pip install '.[sign]' in the checkout"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs a message; `public` is the raw public key, 32 bytes."""

    sign: Callable[[bytes], bytes]
    public: bytes


def signer(pem: str, place: str) -> Signer:
    """From a private key in PEM (`new_key` makes one, and so does openssl). ConfigError names the place that it came from."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"{place}: {MISSING} ({error})") from error
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnicodeEncodeError) as error:
        raise ConfigError(f"{place} is no private key in PEM without a password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{place} is no Ed25519 key: `orchestrator signing-key FILE` makes one")
    return Signer(key.sign, key.public_key().public_bytes_raw())


def new_key() -> tuple[str, str]:
    """A new private key and its public half, both PEM. ConfigError without the extra."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  an extra
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private.decode(), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_key(pem: str, place: str) -> bytes:
    """The raw public key in a PEM. ConfigError names the place that it came from."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"{place}: {MISSING} ({error})") from error
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnicodeEncodeError) as error:
        raise ConfigError(f"{place} is no public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{place} is no Ed25519 public key")
    return key.public_bytes_raw()


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Did the holder of the private half of `public` (raw) sign this message? ConfigError without the extra."""
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
