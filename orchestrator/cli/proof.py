"""`verify` and `export`: are the Traces what was written, and how one proves it to somebody else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.assembly import store_of
from orchestrator.audit import (
    Anchor,
    Chains,
    Export,
    Signer,
    Verdict,
    new_key,
    public_key,
    read_export,
    signer,
    verify_stored,
    write_export,
)
from orchestrator.cli.context import Context, context, say, say_json, spin
from orchestrator.cli.exits import Exit
from orchestrator.cli.queue import span
from orchestrator.errors import ConfigError, StoreError
from orchestrator.show import plain
from orchestrator.stores import Store

SHOWN = 50
"""Problems of one run that are printed; `--json` has them all."""


def verify(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN|FILE.jsonl]...", help="Runs of the store, or exports.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every run, and what belongs to none.")] = False,
    since: Annotated[str | None, typer.Option("--since", help="Runs that began within so long: 6h, 7d.")] = None,
    public: Annotated[
        Path | None, typer.Option("--public-key", help="Who must have signed the exports: an Ed25519 public key, PEM.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="An export: what it knows must still be in the store.")
    ] = None,
    purged_after: Annotated[
        str | None,
        typer.Option("--purged-after", help="With --against: runs that ended longer ago may be gone, as 30d."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="What no key or no hash covers is a problem, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is wrong, and the last line.")] = False,
) -> None:
    """Find altered, removed, inserted or reordered entries: of runs in the store, or of exports without a store."""
    ctx = context(typed)
    named = targets or []
    files = [Path(name) for name in named if name.endswith(".jsonl")]
    runs = [name for name in named if not name.endswith(".jsonl")]
    if not (named or every or since or against):
        raise ConfigError("verify: name a run or a file, or say --all, --since or --against")
    known = None if public is None else public_key(_text(public), str(public))
    judged = [_file(ctx, file, known) for file in files]
    anchors = _anchors(ctx, against, known)
    if runs or every or since or anchors:
        begun = None if not (every or since) else 0.0 if since is None or every else time.time() - span(since)
        purged = 0.0 if purged_after is None else time.time() - span(purged_after)
        judged += [spin(_stored(ctx, runs, begun, anchors, purged))]
    every_one = [verdict for verdicts in judged for verdict in verdicts]
    good = [_good(verdict, strict=strict) for verdict in every_one]
    for verdict, fine in zip(every_one, good, strict=True):
        if not (quiet and fine):
            _tell(verdict, as_json=as_json)
    if not as_json:
        say(f"{len(good)} verified: {sum(good)} intact, {len(good) - sum(good)} not")
    raise typer.Exit(Exit.ANSWERED if all(good) else Exit.FAILED)


def export(  # noqa: PLR0913  one argument for each option of the command line
    typed: typer.Context,
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Which runs.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every run.")] = False,
    since: Annotated[str | None, typer.Option("--since", help="Runs that began within so long: 6h, 7d.")] = None,
    heads: Annotated[bool, typer.Option("--heads", help="Only the heads: an anchor to be kept elsewhere.")] = False,
    key: Annotated[
        Path | None,
        typer.Option("--signing-key", help="Ed25519 private key, PEM; the setting trace.signing_key if not given."),
    ] = None,
) -> None:
    """Write Traces with their hashes, bodies and a signature as JSON lines on stdout. Runs that are not intact are left out."""
    ctx = context(typed)
    if not (runs or every or since):
        raise ConfigError("export: name a run, or say --all or --since")
    begun = None if not (every or since) else 0.0 if since is None or every else time.time() - span(since)
    signed = _signer(ctx, key)
    verdicts = spin(_export(ctx, runs or [], begun, signed, heads=heads))
    sys.stdout.flush()
    for problem in (f"{v.summary}: {'; '.join(v.problems[:3])}" for v in verdicts if not v.intact):
        ctx.err.print(f"left out: {plain(problem)}", style="red")
    if signed is None:
        ctx.err.print("not signed: set trace.signing_key, or give --signing-key", style="yellow")
    raise typer.Exit(Exit.ANSWERED if all(verdict.intact for verdict in verdicts) else Exit.FAILED)


def signing_key(
    file: Annotated[Path, typer.Argument(help="Where the private key goes; it must not be there yet.")],
) -> None:
    """Make an Ed25519 key that signs exports: the private half into FILE, for its owner only, the public half on stdout."""
    private, public = new_key()
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as opened:  # noqa: PTH123  a mode
            opened.write(private)
    except OSError as error:
        raise ConfigError(f"{file} cannot be made: {error.strerror}; give another name") from error
    say(public)


def chains_of(ctx: Context) -> Chains:
    """The keys of the settings, the present one and those before."""
    trace = ctx.settings.trace
    return Chains(*(key.get_secret_value().encode() for key in (trace.key, *trace.old_keys)))


async def _export(
    ctx: Context, runs: Sequence[str], begun: float | None, signed: Signer | None, *, heads: bool
) -> list[Verdict]:
    async with _opened(ctx) as store:
        wanted = await _chosen(store, runs, begun)
        return await write_export(
            store,
            wanted,
            sys.stdout.buffer.write,
            chains=chains_of(ctx),
            made=time.time(),
            signer=signed,
            heads_only=heads,
        )


async def _stored(
    ctx: Context, runs: Sequence[str], begun: float | None, anchors: Sequence[Anchor], purged: float
) -> list[Verdict]:
    """The Verdicts of runs in the store: those that are named, those that began since, those that anchors know."""
    chains, known = chains_of(ctx), {anchor.run_id: anchor for anchor in anchors}
    async with _opened(ctx) as store:
        wanted = dict.fromkeys((*await _chosen(store, runs, begun), *known))
        return [await verify_stored(store, run_id, chains, known.get(run_id), purged) for run_id in wanted]


async def _chosen(store: Store, runs: Sequence[str], begun: float | None) -> list[str]:
    traced = () if begun is None else await store.traced(begun)
    return list(dict.fromkeys((*runs, *traced)))


def _file(ctx: Context, file: Path, public: bytes | None) -> list[Verdict]:
    """An export as Verdicts: its own, and those of its runs."""
    found = _read(ctx, file, public)
    told = {
        "valid": "signed by this key",
        "none": "not signed",
        "unchecked": "its signature was not checked: give --public-key",
        "forged": "SIGNATURE REFUSED",
    }
    if found.signature != "valid":
        ctx.err.print(f"{file}: {told[found.signature]}", style="yellow")
    entries = sum(verdict.entries for verdict in found.verdicts)
    whole = Verdict(f"{file} ({told[found.signature]})", entries, 0, 0, 0, 0, None, found.problems, "file")
    return [whole, *found.verdicts]


def _read(ctx: Context, file: Path, public: bytes | None) -> Export:
    try:
        with file.open("rb") as lines:
            return read_export(lines, chains_of(ctx), public)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def _anchors(ctx: Context, file: Path | None, public: bytes | None) -> tuple[Anchor, ...]:
    """The heads of an export that is itself in order. StoreError otherwise: what was forged is no anchor."""
    if file is None:
        return ()
    found = _read(ctx, file, public)
    if not found.intact:
        problems = (*found.problems, *(problem for verdict in found.verdicts for problem in verdict.problems))
        raise StoreError(f"{file} is no anchor: {problems[0]}")
    return found.anchors


def _good(verdict: Verdict, *, strict: bool) -> bool:
    """Is it what was asked for?"""
    return verdict.intact and not (strict and (verdict.uncovered or verdict.plain or verdict.unknown))


def _tell(verdict: Verdict, *, as_json: bool) -> None:
    """Print one Verdict."""
    if as_json:
        say_json({**asdict(verdict), "intact": verdict.intact}, indent=None)
        return
    say(verdict.summary)
    for problem in verdict.problems[:SHOWN]:
        say(f"  {problem}")
    if len(verdict.problems) > SHOWN:
        say(f"  and {len(verdict.problems) - SHOWN} more (--json has all)")


def _signer(ctx: Context, file: Path | None) -> Signer | None:
    if file is not None:
        return signer(_text(file), str(file))
    pem = ctx.settings.trace.signing_key.get_secret_value()
    return signer(pem, "trace.signing_key") if pem else None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


@asynccontextmanager
async def _opened(ctx: Context) -> AsyncIterator[Store]:
    async with store_of(ctx.settings) as store:
        yield store
