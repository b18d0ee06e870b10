"""Kernels of GPUs: what their language means, interpreted and as CUDA C, and the text of the simulator's own.

Where a C++ compiler is, the text is compiled for the CPU (tests/gpu_text.py); on a machine with a GPU it is run there.
"""

from __future__ import annotations

import shutil
from functools import partial
from types import SimpleNamespace

import gpu_text
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_evogym_kernel
import test_grains_kernel
import test_objects_kernel
import test_points_kernel
from test_advance import run, zoo

from vsr.compute import implementation
from vsr.compute.gpu import interpreter, nvrtc
from vsr.compute.gpu.cuda import cuda_text
from vsr.compute.gpu.language import anyone, kernel_call, load, power_of_two, program_id, rank, store
from vsr.physics.evogym import kernel as evogym
from vsr.terrain import Flat

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ON_GPU = jax.default_backend() == "gpu"
PLANE_BODIES = (*test_points_kernel.QUICK, "more nodes than lanes, along axes", "chambers")
needs_compiler = pytest.mark.skipif(ON_GPU or shutil.which("g++") is None, reason="needs g++ and no GPU")


@pytest.fixture(params=["interpreted", pytest.param("text", marks=needs_compiler)])
def way(request, monkeypatch, tmp_path):
    """How kernels run: on a GPU, interpreted, or by their text."""
    if request.param == "text":
        monkeypatch.setattr(interpreter, "interpret_kernel", gpu_text.text_instead(tmp_path))
    jax.clear_caches()
    yield request.param
    jax.clear_caches()


def called(function, *inputs, results, programs=1, lanes=32, **options):
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    return kernel_call(
        function, programs=programs, lanes=lanes, results=shapes, name="test", interpret=not ON_GPU, **options
    )(*inputs)


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("size", [16, 64, 128])
def test_arrays_may_be_shorter_and_longer_than_there_are_lanes(way, lanes, size):
    def program(values, whole, numbers):
        entry = jnp.arange(size, dtype=jnp.int32)
        mine = load(values.at[program_id(), entry])
        whole[program_id(), 0] = jnp.sum(mine)
        whole[program_id(), 1] = jnp.max(jnp.where(mine < 0, -1.0, mine)) + jnp.min(mine)
        store(numbers.at[program_id(), entry], 2 * entry // 3, mask=mine > 0)

    values = np.float32(np.random.default_rng(1).normal(size=(3, size)).round(2))
    whole, numbers = called(
        program, values, results=[((3, 2), jnp.float32), ((3, size), jnp.int32)], programs=3, lanes=lanes
    )
    np.testing.assert_allclose(whole[:, 0], values.sum(1), atol=1e-5)
    np.testing.assert_allclose(whole[:, 1], np.where(values < 0, -1, values).max(1) + values.min(1), rtol=1e-6)
    there = values > 0
    assert (np.asarray(numbers)[there] == (there * (2 * np.arange(size) // 3))[there]).all()


@pytest.mark.parametrize("lanes", [32, 64])
def test_arrays_may_have_axes_before_that_of_lanes(way, lanes):
    def work(values):
        turned = jnp.roll(values, -1, 0)
        low, *_ = jnp.split(jnp.stack([values, turned + jnp.array([3.0, 1.0, 2.0])[:, None]]), [1], 0)
        chosen = jnp.where(turned == turned.min(0), low[0], -values)
        return (chosen * chosen[:, None]).sum((0, 1)), (values > 1).any(0) & (turned < 2).all(0), values.max()

    def program(values, first, second, most, some):
        lane = jnp.arange(64, dtype=jnp.int32)
        one, two, top = work(jnp.stack([load(values.at[axis, lane]) for axis in range(3)]))
        store(first.at[lane], one)
        store(second.at[lane], two.astype(jnp.int32))
        most[0], some[0] = top, jnp.any(two).astype(jnp.int32) + 2 * jnp.all(two).astype(jnp.int32)

    values = np.float32(np.random.default_rng(1).normal(size=(3, 64)).round(1))
    shapes = [((64,), jnp.float32), ((64,), jnp.int32), ((1,), jnp.float32), ((1,), jnp.int32)]
    got = called(program, values, results=shapes, lanes=lanes)
    one, two, top = work(jnp.asarray(values))
    np.testing.assert_allclose(got[0], one, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[1], two)
    assert (float(got[2][0]), int(got[3][0])) == (float(top), int(two.any()) + 2 * int(two.all()))


@pytest.mark.parametrize("lanes", [32, 128])
def test_lanes_exchange_what_they_found(way, lanes):
    """Each takes its right neighbor's number again and again, in a loop, on a condition: nobody may be late."""

    def program(values, results, shared):
        lane = jnp.arange(lanes, dtype=jnp.int32)

        def turn(count, mine):
            store(shared.at[0, lane], mine)
            beside = load(shared.at[0, (lane + 1) % lanes])
            return jax.lax.cond(count % 2 == 0, lambda: beside + 1, lambda: beside)

        store(results.at[lane], jax.lax.fori_loop(0, 20, turn, load(values.at[lane])))

    values = np.arange(lanes, dtype=np.float32)
    shared = [jax.ShapeDtypeStruct((1, lanes), jnp.float32)]
    (got,) = called(program, values, results=[((lanes,), jnp.float32)], lanes=lanes, scratch=shared)
    np.testing.assert_array_equal(got, np.roll(values, -20) + 10)


def test_a_warp_may_be_spared_what_is_of_no_use_to_it(way):
    """Only the first of two has work; what it does depends on the other, which must have been waited for."""

    def program(values, results, shared):
        lane = jnp.arange(64, dtype=jnp.int32)
        own, works = load(values.at[lane]), lane < 5

        def turn(_, own):
            for column in range(2):
                store(shared.at[lane, column], own + column)

            def work():
                there = jax.lax.optimization_barrier(63 - lane)
                return load(shared.at[there, 0]) + load(shared.at[there, 1])

            return jax.lax.cond(anyone(works), work, lambda: own)

        store(results.at[lane], jax.lax.fori_loop(0, 3, turn, own))

    values = np.arange(64, dtype=np.float32)
    shared = [jax.ShapeDtypeStruct((64, 2), jnp.float32)]
    (got,) = called(program, values, results=[((64,), jnp.float32)], lanes=64, scratch=shared)
    if way == "interpreted" and not ON_GPU:  # all lanes work
        values = 2 * (2 * values[::-1] + 1)[::-1] + 1
    expected = 2 * values[::-1] + 1
    np.testing.assert_array_equal(got[:5], expected[:5])


def test_a_warp_cannot_wait_alone():
    def program(values, results, shared):
        lane = jnp.arange(64, dtype=jnp.int32)

        def work():
            store(shared.at[lane], load(values.at[lane]))
            return load(shared.at[63 - lane])

        store(results.at[lane], jax.lax.cond(anyone(lane < 5), work, lambda: load(values.at[lane])))

    shared = [jax.ShapeDtypeStruct((64,), jnp.float32)]
    call = partial(called, program, results=[((64,), jnp.float32)], lanes=64, scratch=shared)
    traced = jax.make_jaxpr(call)(np.zeros(64, np.float32))
    with pytest.raises(NotImplementedError, match="where a warp is alone"):
        cuda_text(traced.eqns[0].params["kernel"], 1, [False])


@pytest.mark.parametrize(("lanes", "size"), [(32, 16), (32, 32), (32, 40), (32, 64), (96, 40), (96, 200)])
def test_lanes_make_a_list_of_those_for_which_a_mask_holds(way, lanes, size):
    """Again and again, from below: the list holds the entries in their order, however many each lane has."""

    def program(values, listed, counts, shared):
        entry = jnp.arange(size, dtype=jnp.int32)
        mine = load(values.at[entry])

        def turn(state):
            first, _ = state
            before, total = rank(mine > first)
            store(shared.at[before], entry, mask=mine > first)
            store(listed.at[first, entry], load(shared.at[entry], mask=entry < total, other=-1))
            counts[first] = total
            return first + 1, total

        jax.lax.while_loop(lambda state: state[1] > 0, turn, (jnp.int32(0), jnp.int32(1)))

    values = np.random.default_rng(1).integers(0, 4, size, dtype=np.int32)
    values[[0, -1]] = 3
    shapes = [((4, size), jnp.int32), ((4,), jnp.int32)]
    shared = [jax.ShapeDtypeStruct((size,), jnp.int32)]
    listed, counts = called(program, values, results=shapes, scratch=shared, lanes=lanes)
    expected = [np.flatnonzero(values > first) for first in range(4)]
    assert [np.asarray(row)[:count].tolist() for row, count in zip(listed, counts, strict=True)] == [
        row.tolist() for row in expected
    ]


def test_arrays_are_taken_apart_along_any_axis_but_that_of_lanes(way):
    def program(values, results):
        lane = jnp.arange(32, dtype=jnp.int32)
        first, second, third = jnp.stack([load(values.at[row, lane]) for row in range(3)])
        (low, high), _ = jnp.stack([jnp.stack([first, second]), jnp.stack([second, third])], 1).swapaxes(0, 1)
        store(results.at[lane], first - 2 * second + 3 * third + low * high)

    values = np.random.default_rng(2).normal(size=(3, 32)).astype(np.float32)
    (got,) = called(program, values, results=[((32,), jnp.float32)])
    np.testing.assert_allclose(got, values[0] - 2 * values[1] + 3 * values[2] + values[0] * values[1], rtol=1e-5)


def test_scratch_that_does_not_fit_on_chip_is_in_memory(way):
    def program(values, results, shared):
        lane = jnp.arange(32, dtype=jnp.int32)
        store(shared.at[program_id(), 600 * lane], load(values.at[lane]))
        store(results.at[program_id(), lane], load(shared.at[program_id(), 600 * (31 - lane)]))

    values = np.arange(32, dtype=np.float32)
    shared = [jax.ShapeDtypeStruct((2, 20_000), jnp.float32)]
    (got,) = called(program, values, results=[((2, 32), jnp.float32)], programs=2, scratch=shared)
    np.testing.assert_array_equal(got, [values[::-1]] * 2)


def test_vmap_adds_worlds_and_what_is_not_written_stays(way):
    def program(state, scale, after):
        lane = jnp.arange(32, dtype=jnp.int32)
        place = program_id() * 32 + lane
        store(after.at[place], scale[0] * load(state.at[place]), mask=lane != 5)

    def one(state, scale):
        return called(program, state, scale, results=[((64,), jnp.float32)], programs=2, aliases={0: 0})[0]

    state, scale = np.arange(64, dtype=np.float32), np.float32([[1], [2], [3]])
    changes = np.arange(64) % 32 != 5
    states = np.stack([state, state + 1])
    got = jax.vmap(lambda each: jax.vmap(one, (None, 0))(each, scale))(states)
    expected = np.where(changes, scale * states[:, None], states[:, None])
    np.testing.assert_array_equal(got, expected)


def test_power_of_two():
    assert [power_of_two(number) for number in (0, 1, 2, 3, 32, 33)] == [1, 1, 2, 4, 32, 64]


def test_what_a_kernel_cannot_say_is_named():
    def sorts(values, results):
        store(results.at[jnp.arange(32)], jnp.sort(load(values.at[jnp.arange(32)])))

    with pytest.raises(TypeError, match="2 indices for a table of 1 axes"):
        called(lambda values, _: values[0, 1], np.zeros(3, np.float32), results=[((1,), jnp.float32)])
    traced = jax.make_jaxpr(partial(called, sorts, results=[((32,), jnp.float32)]))(np.zeros(32, np.float32))
    with pytest.raises(NotImplementedError, match="sort"):
        cuda_text(traced.eqns[0].params["kernel"], 1, [False])


@pytest.mark.parametrize(
    ("capability", "platform", "compiler", "named"),
    [
        ("7.5", "cuda 12090", object(), None),
        ("6.1", "cuda 12090", object(), "capability 7.0, and this GPU has 6.1"),
        ("9.4", "rocm 60000", object(), "AMD"),
        ("9.0", "cuda 13000", None, "NVRTC"),
    ],
)
def test_auto_takes_the_kernel_where_it_can_run(monkeypatch, capability, platform, compiler, named):
    gpu = SimpleNamespace(compute_capability=capability, client=SimpleNamespace(platform_version=platform))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [gpu])
    monkeypatch.setattr(implementation, "library", lambda: compiler)
    assert implementation.chosen("auto") == ("fused" if named is None else "xla")
    if named:
        with pytest.raises(ValueError, match=named):
            implementation.chosen("fused")


@needs_compiler
@pytest.mark.parametrize("way", ["text"], indirect=True)
class TestTextOfTheSimulator:
    """Plain JAX beside the text of each kernel."""

    def test_squares(self, way):
        models, environment, states, controls = jax.tree.map(lambda leaf: leaf, zoo(jnp.float32))
        few = jax.tree.map(lambda leaf: leaf[:4], (models, states, controls))
        plain, kernel = (
            run(implementation, few[0], environment, *few[1:], count=2) for implementation in ("xla", "interpreted")
        )
        for one, other in zip(jax.tree.leaves(kernel), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)

    @pytest.mark.parametrize(
        "name",
        [
            name if name in PLANE_BODIES else pytest.param(name, marks=pytest.mark.slow)
            for name in test_points_kernel.BODIES
        ],
    )
    def test_points(self, way, name):
        test_points_kernel.compare(name)

    @pytest.mark.slow
    def test_grains(self, way):
        (plain, _), (kernel, _) = test_grains_kernel.both(
            test_grains_kernel.thrown(2, rolling=0.1), test_grains_kernel.GROUND, steps=10
        )
        test_grains_kernel.same(plain, kernel, 1e-5)

    @pytest.mark.slow
    def test_robots_among_grains(self, way):
        assert test_grains_kernel.same_with_robots("squares", (0.0,), 4)[0] > 0.01

    @pytest.mark.slow
    @pytest.mark.parametrize("lanes", [32, 64])
    def test_evogym(self, way, lanes, monkeypatch):
        monkeypatch.setattr(evogym, "lanes_for", lambda places, nodes: lanes)
        test_evogym_kernel.test_the_kernel_moves_worlds_as_plain_jax_does(lanes)

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["squares", "3-D"])
    def test_contact(self, way, engine):
        objects = test_objects_kernel.IN_SPACE if engine == "3-D" else test_objects_kernel.OBJECTS
        shape = test_objects_kernel.BLOCK if engine == "3-D" else test_objects_kernel.FRAME
        options = {"shape": shape, "seconds": 0.05, "shifts": (0.0,), "self_contact": True}
        plain, kernel = test_objects_kernel.both([objects["crate"]], engine, Flat().build(), **options)
        test_objects_kernel.same(plain, kernel, 1e-4)


def test_nvrtc_is_looked_for_where_wheels_put_it(tmp_path, monkeypatch):
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: spec)
    assert str(library) in nvrtc._installed()


@pytest.mark.skipif(nvrtc.library() is None, reason="needs NVRTC")
@pytest.mark.parametrize(("capability", "version"), [(75, "7.8"), (90, "7.8"), (91, "7.8"), (120, "8.7")])
def test_nvrtc_compiles_for_gpus_of_many_kinds(capability, version):
    def program(values, results):
        lane = jnp.arange(32, dtype=jnp.int32)
        store(results.at[lane], jnp.sqrt(load(values.at[lane])) / jnp.sum(load(values.at[lane])))

    traced = jax.make_jaxpr(partial(called, program, results=[((32,), jnp.float32)]))(np.zeros(32, np.float32))
    text = nvrtc.ptx(cuda_text(traced.eqns[0].params["kernel"], 1, [False]), capability)
    assert f".version {version}\n" in text
    assert f".target sm_{90 if capability == 91 else capability}" in text
