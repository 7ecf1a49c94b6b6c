"""Facts that are read from a kernel's own intermediate code, whatever compiler it is of."""

import math
from collections.abc import Sequence

import msgspec

from costmodel.failures import last_line

_UNKNOWN = math.nan


class ReadFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one kernel does, counted in its intermediate code; NaN where its source does not tell.

    Counts are of one program (a thread block), averaged over several where they differ; those named
    ``thread_...`` are of one of its threads, with what the layout of data makes several threads do alike.
    Counts of loops are with their trips.

    Attributes:
        programs: Programs (thread blocks) of the launch.
        threads: Threads of a program.
        loads: Loads of tiles or single elements from device memory.
        load_bytes: Bytes that these read, masked ones left out, repeats included.
        load_sectors: Sectors of 32 bytes that they touch, repeats included.
        load_distinct_sectors: The same, but once where loads of one turn touch a sector again.
        load_requests: Requests of warps that they take, at the widest access that addresses allow.
        load_run_bytes: Contiguous bytes that they read, geometric mean weighted by bytes.
        load_once_bytes: Bytes, if a load were repeated only where its address or mask changes.
        loop_load_bytes: Bytes that one turn of all loops reads.
        front_load_bytes: Bytes read outside of loops.
        tile_bytes: Bytes of the largest tile that is read.
        stores: Stores of tiles or single elements.
        store_bytes: Bytes that these write.
        store_sectors: Sectors that they touch.
        store_requests: Requests of warps that they take.
        store_run_bytes: Contiguous bytes that they write, as ``load_run_bytes``.
        atomics: Atomic operations on single elements.
        atomic_sectors: Sectors that these touch.
        atomics_per_address: Atomic operations of the whole launch on each element of the arrays they change.
        masked_share: Share of the bytes of loads and stores that is masked.
        read_array_bytes: Size of the arrays that are read, whole.
        written_array_bytes: Size of the arrays that are written or changed, whole.
        products: Products of tiles.
        tensor_flops: Floating-point operations of these.
        product_m: Rows of the largest product.
        product_n: Its columns.
        product_k: Its depth.
        product_bits: Bits of its operands' elements.
        operand_bytes: Bytes of the operands of all products.
        float_ops: Floating-point additions, products, comparisons and choices of elements.
        special_ops: Exponentials, roots, quotients and other functions of elements.
        convert_ops: Conversions of elements between types.
        integer_ops: Operations on whole numbers, element by element.
        scalar_ops: The same, once a program.
        reductions: Reductions of tiles.
        reduced_elements: Elements that these take.
        reduced_rows: Elements that these give.
        reduction_size: Elements along the longest reduced axis.
        scans: Scans of tiles.
        scanned_elements: Elements that these take.
        rearranged_elements: Elements of tiles that are transposed, reshaped, joined or gathered.
        loops: Loops that are entered.
        loop_steps: Turns of all loops.
        inner_trips: Turns of the longest loop without a loop in it.
        pipeline_stages: Stages in which loops are told to overlap loads with work.
        live_bytes: Most bytes of tiles alive at once.
        carried_bytes: Most bytes that a loop carries from turn to turn.
        memory_waits: Loads and atomic operations that follow one another, each on what the last one found or
            a turn later.
        guessed_bounds: Loops whose trips data decide.
        guessed_branches: Branches that data decide.
        guessed_accesses: Accesses to memory whose addresses data decide.
        unknown_operations: Operations that the reader does not know.
        thread_float_ops: As ``float_ops``, of a thread, with what reductions compute.
        thread_special_ops: As ``special_ops``.
        thread_convert_ops: As ``convert_ops``.
        thread_integer_ops: As ``integer_ops``.
        thread_scalar_ops: As ``scalar_ops``.
        thread_loads: Load instructions.
        thread_load_bytes: Bytes of these.
        thread_copies: Copies to shared memory that nothing waits for at once.
        thread_copy_bytes: Bytes of these.
        thread_stores: Store instructions.
        thread_store_bytes: Bytes of these.
        thread_atomics: Atomic instructions.
        access_bytes: Bytes of the narrowest of these accesses to a tile.
        replicated_load_bytes: Bytes of a program's loads that several threads read alike.
        thread_tensor_flops: Operations of products that a thread's warp does, for each thread.
        is_group_product: 1 if warps multiply as groups, 0 if alone.
        shared_bytes: Shared memory of a program.
        shared_load_words: Words of 4 bytes that a thread reads from shared memory.
        shared_store_words: Words that it writes there.
        conversions: Changes of layout.
        converted_elements: Elements of a thread that change.
        barriers: Barriers of all threads.
        shuffles: Exchanges within a warp.
        cross_warp_reductions: Reductions and scans across warps.
        thread_live_words: Most words of tiles that a thread holds at once.
        copies_ahead: Copies under way that the loops do not wait for, at most.
        load_request_sectors: Sectors that the loads and copies of each warp touch, once for each of its
            requests: what lanes read side by side counts once.
        store_request_sectors: The same of stores.
        request_lines: Lines of 128 bytes that both touch, likewise.
        bank_turns: Turns in which the banks of shared memory serve what a warp reads and writes there.
        register_limit: Registers that a thread can have, or may as its author says.
        descriptors: Descriptors of tensors that it makes.
    """

    programs: float = _UNKNOWN
    threads: float = _UNKNOWN
    loads: float = _UNKNOWN
    load_bytes: float = _UNKNOWN
    load_sectors: float = _UNKNOWN
    load_distinct_sectors: float = _UNKNOWN
    load_requests: float = _UNKNOWN
    load_run_bytes: float = _UNKNOWN
    load_once_bytes: float = _UNKNOWN
    loop_load_bytes: float = _UNKNOWN
    front_load_bytes: float = _UNKNOWN
    tile_bytes: float = _UNKNOWN
    stores: float = _UNKNOWN
    store_bytes: float = _UNKNOWN
    store_sectors: float = _UNKNOWN
    store_requests: float = _UNKNOWN
    store_run_bytes: float = _UNKNOWN
    atomics: float = _UNKNOWN
    atomic_sectors: float = _UNKNOWN
    atomics_per_address: float = _UNKNOWN
    masked_share: float = _UNKNOWN
    read_array_bytes: float = _UNKNOWN
    written_array_bytes: float = _UNKNOWN
    products: float = _UNKNOWN
    tensor_flops: float = _UNKNOWN
    product_m: float = _UNKNOWN
    product_n: float = _UNKNOWN
    product_k: float = _UNKNOWN
    product_bits: float = _UNKNOWN
    operand_bytes: float = _UNKNOWN
    float_ops: float = _UNKNOWN
    special_ops: float = _UNKNOWN
    convert_ops: float = _UNKNOWN
    integer_ops: float = _UNKNOWN
    scalar_ops: float = _UNKNOWN
    reductions: float = _UNKNOWN
    reduced_elements: float = _UNKNOWN
    reduced_rows: float = _UNKNOWN
    reduction_size: float = _UNKNOWN
    scans: float = _UNKNOWN
    scanned_elements: float = _UNKNOWN
    rearranged_elements: float = _UNKNOWN
    loops: float = _UNKNOWN
    loop_steps: float = _UNKNOWN
    inner_trips: float = _UNKNOWN
    pipeline_stages: float = _UNKNOWN
    live_bytes: float = _UNKNOWN
    carried_bytes: float = _UNKNOWN
    memory_waits: float = _UNKNOWN
    guessed_bounds: float = _UNKNOWN
    guessed_branches: float = _UNKNOWN
    guessed_accesses: float = _UNKNOWN
    unknown_operations: float = _UNKNOWN
    thread_float_ops: float = _UNKNOWN
    thread_special_ops: float = _UNKNOWN
    thread_convert_ops: float = _UNKNOWN
    thread_integer_ops: float = _UNKNOWN
    thread_scalar_ops: float = _UNKNOWN
    thread_loads: float = _UNKNOWN
    thread_load_bytes: float = _UNKNOWN
    thread_copies: float = _UNKNOWN
    thread_copy_bytes: float = _UNKNOWN
    thread_stores: float = _UNKNOWN
    thread_store_bytes: float = _UNKNOWN
    thread_atomics: float = _UNKNOWN
    access_bytes: float = _UNKNOWN
    replicated_load_bytes: float = _UNKNOWN
    thread_tensor_flops: float = _UNKNOWN
    is_group_product: float = _UNKNOWN
    shared_bytes: float = _UNKNOWN
    shared_load_words: float = _UNKNOWN
    shared_store_words: float = _UNKNOWN
    conversions: float = _UNKNOWN
    converted_elements: float = _UNKNOWN
    barriers: float = _UNKNOWN
    shuffles: float = _UNKNOWN
    cross_warp_reductions: float = _UNKNOWN
    thread_live_words: float = _UNKNOWN
    copies_ahead: float = _UNKNOWN
    load_request_sectors: float = _UNKNOWN
    store_request_sectors: float = _UNKNOWN
    request_lines: float = _UNKNOWN
    bank_turns: float = _UNKNOWN
    register_limit: float = _UNKNOWN
    descriptors: float = _UNKNOWN

    @property
    def guesses(self) -> float:
        """How many bounds, branches and addresses were guessed."""
        return self.guessed_bounds + self.guessed_branches + self.guessed_accesses


READ_FACTS = ReadFacts.__struct_fields__


class Reading(msgspec.Struct, frozen=True):
    """What reading one kernel gave.

    Attributes:
        facts: What was read; all NaN if nothing was.
        note: Why facts are missing; empty if none are.
    """

    facts: ReadFacts = ReadFacts()
    note: str = ""


def describe_failure(error: Exception) -> str:
    """Return the note of a kernel that could not be read."""
    return f"{type(error).__name__}: {last_line(error)}"


def mean_facts(facts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each fact over programs."""
    return {name: sum(each.get(name, 0.0) for each in facts) / len(facts) for name in facts[0]}
