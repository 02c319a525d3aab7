"""The page on a run of `relevit audit`, with all pictures in it, and `audit.json` beside it."""

from __future__ import annotations

from pathlib import Path

from relevit.base.files import write_atomically
from relevit_own.audit import Audited
from relevit_own.images import TOKENCUT
from relevit_own.reports.page import audit_parts, write_page

PAGE, FACTS, ROWS, FILES = "index.html", "audit.json", "rows.csv", "ledger.csv"


def need_free(out: Path) -> None:
    """Raise ValueError for a folder that holds something else than an audit."""
    if out.exists() and (
        not out.is_dir() or ({e.name for e in out.iterdir()} and not (out / FACTS).is_file())
    ):
        raise ValueError(f"audit: {out} is not empty and holds no audit; give another --out")


def write_audit(found: Audited, out: Path) -> Path:
    """Write the page, `audit.json` (`Audit` says its fields) and each answer; the page's path."""
    need_free(out)
    out.mkdir(parents=True, exist_ok=True)
    audit, names = found.audit, found.names
    # First: where the disk is full later, the folder is known as an audit's, and can be used again.
    write_atomically(out / FACTS, audit.model_dump_json(indent=1) + "\n")
    masks = audit.masks.replace(TOKENCUT, "TokenCut's")
    rows = found.rows.assign(
        label=[names[label] for label in found.rows["label"]],
        answer=[names[answer] for answer in found.rows["answer"]],
    )
    columns = ["file", *rows.columns.drop(["file", "image"])]
    write_atomically(out / ROWS, rows[columns].to_csv(index=False, float_format="%.4f"))
    page = write_page(
        out / PAGE,
        title=f"{audit.model}: does it lean on context?",
        finding=audit.sentence,
        parts=audit_parts({audit.model: found}),
        texts=[f"{audit.images} images of {audit.data}; masks: {masks}."],
        notes=audit.notes,
        files=[FACTS, ROWS, FILES],
    )
    write_atomically(out / FILES, found.ledger.files.to_csv(index=False))
    return page
