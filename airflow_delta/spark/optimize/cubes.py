"""Which files of a clustered table are reclustered, determined from the cube tags of files.

A cube is the set of files that one OPTIMIZE has clustered together. New files join cubes until these are large; a large cube is
left unchanged, so that the work of each OPTIMIZE is roughly what was added since the last one. Spark: ``ClusteringStrategy``.
Does not use numpy, because Airflow's worker also determines whether there is work to do.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

import pyarrow as pa

from airflow_delta.core.actions.file_actions import STRING_MAP

PROVIDER = "liquid"
"""``clusteringProvider`` of files clustered in this way."""

CUBE_ID = "ZCUBE_ID"
CUBE_COLUMNS = "ZCUBE_ZORDER_BY"

_SMALL_CUBE = 100 << 30
_LARGE_CUBE = 150 << 30


def cubes_to_make(
    files: pa.Table, columns: Sequence[str], *, full: bool, small_cube: int = _SMALL_CUBE, large_cube: int = _LARGE_CUBE
) -> tuple[pa.Table, pa.Array]:
    """The files to recluster, cube by cube, and for each the index (int32) of its new cube.

    Args:
        files: Live files, ``ADD_FILE``.
        columns: The clustering columns, as in the tags.
        full: Whether to take all files, whatever their cubes are.
        small_cube: Bytes; a smaller cube takes in more files.
        large_cube: Approximate bytes of a new cube.
    """
    sizes: list[int] = files["size"].to_pylist()
    tags: list[Mapping[str, str]] = [dict(tags_of_file or ()) for tags_of_file in files["tags"].to_pylist()]
    cubes = [tags_of_file.get(CUBE_ID) for tags_of_file in tags]
    wanted = list(range(len(sizes)))
    if not full:
        providers = files["clustering_provider"].to_pylist()
        wanted = [number for number in wanted if _is_ours(tags[number], providers[number], columns)]
        held: Counter[str | None] = Counter()
        for number in wanted:
            held[cubes[number]] += sizes[number]
        wanted = [number for number in wanted if cubes[number] is None or held[cubes[number]] < small_cube]
        taken = {cubes[number] for number in wanted}
        if len(taken) == 1 and None not in taken:
            wanted = []  # already clustered
    wanted.sort(key=lambda number: (cubes[number] or "", number))
    filled = accumulate(sizes[number] for number in wanted)
    ordinals = pa.array([(position - 1) // large_cube for position in filled], pa.int64()).dictionary_encode().indices
    return files.take(pa.array(wanted, pa.int64())), ordinals


def tagged(adds: pa.Table, cubes: pa.Array, columns: Sequence[str]) -> pa.Table:
    """The files (``ADD_FILE``) tagged as members of new cubes.

    Args:
        adds: New files.
        cubes: For each file the index of its cube.
        columns: The clustering columns.
    """
    names = {ordinal: str(uuid.uuid4()) for ordinal in cubes.unique().to_pylist()}
    by = json.dumps(list(columns), ensure_ascii=False, separators=(",", ":"))
    tags = pa.array([[(CUBE_ID, names[cube]), (CUBE_COLUMNS, by)] for cube in cubes.to_pylist()], STRING_MAP)
    providers = pa.repeat(pa.scalar(PROVIDER), len(adds))
    for name, values in (("tags", tags), ("clustering_provider", providers)):
        adds = adds.set_column(adds.schema.get_field_index(name), adds.schema.field(name), values)
    return adds


def _is_ours(tags: Mapping[str, str], provider: str | None, columns: Sequence[str]) -> bool:
    """Whether the file is not clustered yet, or clustered by these columns."""
    if provider not in (None, PROVIDER):
        return False
    return CUBE_ID not in tags or CUBE_COLUMNS not in tags or _columns(tags[CUBE_COLUMNS]) == list(columns)


def _columns(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
