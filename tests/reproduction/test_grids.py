"""The declared grids: that they are the paper's, and that no cell is there twice."""

import pytest

from miv.errors import MIVError
from miv.poolings import create_pooling
from miv.reproduction.grids import (
    EXPERIMENTS,
    LADDER,
    STANDS_IN,
    UNTRAINED,
    Setup,
    find_experiments,
    published,
    published_digit,
    published_step,
    read_published,
)
from miv.reproduction.jobs import TIERS, Job, find_tier
from miv.training.auto import preset


def test_every_task_has_every_table_and_figure() -> None:
    everywhere = {"classification", "key_instance", "ablation", "headed", "layernorm"}
    for task, some in EXPERIMENTS.items():
        assert set(some) - everywhere == ({"per_digit", "size_study"} if task == "qmnist" else set())


@pytest.mark.parametrize("task", EXPERIMENTS)
def test_the_untrained_cosine_is_in_every_table_of_models(task: str) -> None:
    for experiment in find_experiments(task):
        has = [row.setup.pooling for row in experiment.rows].count(UNTRAINED)
        sizes = len({row.variant for row in experiment.rows})
        assert has == {"per_digit": 0, "size_study": sizes}.get(experiment.name, 1)
    cell = EXPERIMENTS[task]["classification"].only([UNTRAINED]).cells([0])[0]
    assert not any(tier.settings(cell).full_stage for tier in TIERS.values() if tier.takes(task))


@pytest.mark.parametrize("task", EXPERIMENTS)
def test_cells_are_shared_and_never_twice(task: str) -> None:
    setups: dict[str, Setup] = {}
    for experiment in find_experiments(task):
        cells = experiment.cells()
        assert len({str(cell) for cell in cells}) == len(cells)
        assert [cell.round for cell in cells] == sorted(cell.round for cell in cells)
        for row in experiment.rows:
            assert setups.setdefault(row.setup.name, row.setup) == row.setup
    described = {(s.pooling, str(s.pooling_options), str(s.task_options)) for s in setups.values()}
    assert len(described) == len(setups)
    of = {name: {row.setup.name for row in one.rows} for name, one in EXPERIMENTS[task].items()}
    assert of["key_instance"] < of["classification"]
    assert {"baseline", "cap_vema", "cap_dba_l1", UNTRAINED} == of["ablation"] & of["classification"]
    assert of["headed"] & of["classification"] == {"cap_vema", "cap_dba_l1", UNTRAINED}


def test_every_setup_can_be_made() -> None:
    for row in {row.setup.name: row for one in find_experiments("qmnist") for row in one.rows}.values():
        assert create_pooling(row.setup.pooling, channels=12, **row.setup.pooling_options).channels == 12


def test_every_published_figure_is_in_a_table_of_ours() -> None:
    used = set()
    for task in ("qmnist", "signature", "fever"):
        for experiment in find_experiments(task):
            for row in experiment.rows:
                for metric in experiment.metrics:
                    used.add((experiment.name, task, row.model, row.variant, metric))
                    others = ("size_study", "headed")
                    if experiment.name not in others and row.variant != "none" and row.model != UNTRAINED:
                        assert published(experiment, row, metric), (experiment.name, row, metric)
                    if experiment.name == "ablation" and row.variant == "+pre_layernorm":
                        used.add(("ablation", task, row.model, "full", metric))
    used |= {
        ("per_digit", "qmnist", "cap_vema", f"digit_{d}", kind) for d in range(10) for kind in ["tp", "tn", "fp", "fn"]
    }
    assert set(read_published()) <= used


def test_published_figures_by_eye() -> None:
    classification, ablation, layernorm = (
        find_experiments("qmnist", name)[0] for name in ("classification", "ablation", "layernorm")
    )
    baseline = published(classification, classification.rows[0], "auroc")
    assert baseline is not None
    assert (baseline.mean, baseline.standard_error) == (0.708, 0.006)
    ladder = [row for row in ablation.rows if row.model == "cap_vema"]
    sums = [figure.mean for row in ladder if (figure := published(ablation, row, "auroc"))]
    assert sums == [0.708, 0.733, 0.733, 0.744, 0.736]  # 0.708 + 0.025 + 0.000 + 0.011 - 0.008
    assert published_step("claims", "cap_dba_l1", "+attention", "i_auroc") == 0.206  # FEVER's
    post = published(layernorm, layernorm.rows[1], "i_auroc")
    assert post is not None
    assert (post.mean, post.standard_error) == (0.806, 0.02)
    assert published_digit("6", "fn") == 0.103


@pytest.mark.parametrize("task", EXPERIMENTS)
def test_tiers_change_cost_and_of_the_protocol_only_what_they_say(task: str) -> None:
    """Fewer anchors of signatures, a second stage and a contrast stage only for QMNIST; nothing else."""
    protocol = ("frozen_stage", "heads", "select_by")
    fewer = {"signature": {"anchors_per_query": 2}}.get(task, {})
    cells = [cell for name in ("classification", "ablation") for cell in EXPERIMENTS[task][name].cells([1])]
    for cell in [cell for cell in cells if cell.setup.pooling != UNTRAINED]:
        paper, cpu = find_tier("paper"), find_tier("cpu")
        name, options = paper.data(cell)
        assert cpu.data(cell) == (name, {**options, **fewer})
        assert options["round"] == 1
        exact = preset(STANDS_IN.get(task, task), cell.setup.pooling)
        assert cpu.settings(cell).full_stage == (task == "qmnist")
        assert (cpu.settings(cell).contrast_epochs > 0) == (task == "qmnist")
        assert (paper.settings(cell).full_stage, paper.settings(cell).contrast_epochs) == (True, 0)
        assert paper.settings(cell) == exact.changed({"pooling_options": cell.setup.pooling_options, "seed": 1})
        for name in protocol:
            assert getattr(paper.settings(cell), name) == getattr(cpu.settings(cell), name)


@pytest.mark.parametrize("task", EXPERIMENTS)
def test_the_cpu_tier_treats_every_model_alike(task: str) -> None:
    ours = ("pooling", "pooling_options")
    table = EXPERIMENTS[task]["classification"]
    trained = [row.model for row in table.rows if row.model != UNTRAINED]
    settings = [find_tier("cpu").settings(cell).document() for cell in table.only(trained).cells([0])]
    assert len({str({k: v for k, v in one.items() if k not in ours}) for one in settings}) == 1


def test_a_job_survives_being_told_to_another_process() -> None:
    cell = find_experiments("qmnist", "ablation")[0].cells([2])[1]
    job = Job(cell, "cpu")
    again = Job.of(job.document())
    assert (again, again.digest) == (job, job.digest)
    assert job.description["config"]["pooling_options"] == LADDER["+attention"]


def test_models_are_chosen_and_a_pooling_of_ones_own_gets_a_row() -> None:
    table = find_experiments("qmnist", "classification")[0]
    assert [row.model for row in table.only(["cap_ma", "baseline"]).rows] == ["baseline", "cap_ma"]
    with pytest.raises(MIVError, match=r"no pooling 'cap_vena'\. Did you mean 'cap_vema'"):
        table.only(["cap_vena"])
    with pytest.raises(MIVError, match=r"no row of msa\. It has baseline"):  # no attention, so no key instances
        find_experiments("qmnist", "key_instance")[0].only(["baseline", "msa"])
    with pytest.raises(MIVError, match="It has cap_vema, cap_dba_l1"):
        find_experiments("qmnist", "headed")[0].only(["gabmil"])
    with pytest.raises(MIVError, match="Did you mean 'classification'"):
        find_experiments("qmnist", "clasification")
