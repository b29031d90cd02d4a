"""Algorithm 1: its stages, what each learns from, and what it must not depend on."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import TINY, TINY_PAPER, blobs, seeded, source, twins, with_gaps
from torch.nn import functional

from protocol_mvc.data.batches import BLOCK, Batch, Source
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.data.views import as_views
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition import codebook, consensus, view_matching
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Step
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.random import draw_seed

VIEWS, _ = blobs()
TWINS = twins()
DIMS = [5, 4]
K = 3
CALM: dict[str, Any] = {"dropout": 0.0}  # no noise: one batch has one loss


def method(config=TINY, dims=DIMS, **changes) -> Protocol:
    return build(lambda: Protocol(config.model_copy(update=changes), dims, K), seeded())


def test_a_part_must_have_room_for_all_clusters():
    assert method(most_rows=K).config.most_rows == K
    with pytest.raises(ValueError, match=r"most_rows must be at least n_clusters \(3\), got 2"):
        method(most_rows=K - 1)


def batches(views=VIEWS) -> list[Batch]:
    return list(source(views).shuffled(seeded()))


def perceived(protocol: Protocol, views=VIEWS, mass: float = 0.7) -> PotLabels:
    """The labels of all samples after perceiving."""
    protocol.perceive(source(views), seeded())
    labels = protocol.label(source(views), seeded(), mass)
    assert labels is not False
    return labels


def touched(protocol: Protocol, losses) -> set[str]:
    """The parts of the network that a sum of losses gives a gradient to."""
    protocol.zero_grad()
    torch.stack(list(losses.values())).sum().backward()
    moved = [name for name, p in protocol.network.named_parameters() if p.grad is not None and p.grad.any()]
    return {name.split(".")[0] for name in moved}


ALL_PARTS = {"autoencoders", "project", "project_consensus", "attention", "consensus", "classifier"}


@pytest.mark.parametrize(
    ("rounds", "names"),
    [
        (0, ["reconstruct", "reconstruct twins", "align", "read out"]),
        (1, ["reconstruct", "reconstruct twins", "align", "rebalance", "read out"]),
        (2, ["reconstruct", "reconstruct twins", "align", "rebalance 1", "rebalance 2", "read out"]),
    ],
)
def test_the_stages_are_those_of_algorithm_1(rounds: int, names: list[str]):
    assert [stage.name for stage in method(rounds=rounds).stages()] == names


def test_stages_take_lengths_and_rates_from_the_config():
    stages = method(align_length=7, align_rate=0.25, rounds=2).stages()
    assert [stage.epochs for stage in stages] == [3, 1, 7, 2, 2, 0]
    assert stages[2].learning_rate == 0.25
    assert all(stage.begin is not None for stage in stages)


@pytest.mark.parametrize("most", [None, 5])
def test_steps_of_an_epoch_are_bounded(most: int | None):
    bounds = {"reconstruct_steps": 4, "most_steps": most, "most_rebalance_steps": 9}
    *trained, last = method(**bounds).stages()
    assert [stage.least_steps for stage in trained] == [4, 4, 1, 1]
    assert [stage.most_steps for stage in trained] == [most] * 3 + [9]
    assert last.step is None


def test_reconstruction_touches_the_autoencoders_alone():
    protocol = method()
    losses = protocol.reconstruct(batches()[0], 0.0, None)
    assert losses.keys() == {"reconstruction"}
    assert touched(protocol, losses) == {"autoencoders"}


def test_alignment_touches_every_part():
    protocol = method()
    losses = protocol.align(batches()[0], 0.0, None)
    assert losses.keys() == {"feature", "class", "reconstruction"}
    assert touched(protocol, losses) == ALL_PARTS


def test_rebalancing_touches_every_part():
    protocol = method()
    losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
    assert losses.keys() == {"label", "feature", "class", "reconstruction"}
    assert touched(protocol, losses) == ALL_PARTS


def test_the_pot_labels_reach_the_classifier():
    protocol = method()
    losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
    assert "classifier" in touched(protocol, {"label": losses["label"]})


@pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_every_step_has_finite_losses(config, views):
    protocol = method(config)
    labels: PotLabels | float = 0.5 if config.label_scope == "batch" else perceived(protocol, views)
    protocol.perceive(source(views), seeded())
    for batch in batches(views):
        for losses in (
            protocol.reconstruct(batch, 0.0, None),
            protocol.align(batch, 0.0, None),
            protocol.rebalance(batch, 0.0, labels),
        ):
            assert all(value.ndim == 0 and bool(value.isfinite()) for value in losses.values())


def test_without_rebalancing_the_contrasts_are_the_plain_ones():
    protocol = method(**CALM, rebalance=False)
    batch, labels = batches()[0], perceived(protocol)
    plain, last = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    for term in ("feature", "class", "reconstruction"):
        assert torch.equal(plain[term], last[term])


def test_without_a_shift_the_feature_contrast_is_the_plain_one():
    protocol = method(**CALM, logit_shift=0.0)
    batch, labels = batches()[0], perceived(protocol)
    plain, last = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    assert torch.equal(plain["feature"], last["feature"])
    assert not torch.equal(plain["class"], last["class"])


@pytest.mark.parametrize(("field", "term"), [("label_weight", "label"), ("class_weight", "class")])
def test_a_weight_multiplies_its_term(field: str, term: str):
    values = []
    for weight in (0.0, 1.0, 2.0):
        protocol = method(**CALM, **{field: weight})
        values.append(float(protocol.rebalance(batches()[0], 0.0, perceived(protocol))[term].detach()))
    assert values[0] == 0
    assert values[2] == pytest.approx(2 * values[1])


@pytest.mark.parametrize(
    "change",
    [
        {"structure_weight": 1.0},
        {"label_loss": "mixed"},
        {"label_shift": 0.0},
        {"double_softmax": True},
        {"temperature_feature": 1.0},
        {"temperature_class": 0.5},
        {"sample_weight": 0.1},
    ],
    ids=str,
)
def test_each_choice_changes_the_last_stage(change):
    totals = []
    for changes in (CALM, CALM | change):
        protocol = method(**changes)
        losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
        totals.append(float(torch.stack(list(losses.values())).sum().detach()))
    assert totals[0] != totals[1]


def test_what_an_absent_view_holds_changes_no_loss():
    protocol = method(**CALM)
    gaps = with_gaps(VIEWS)
    labels = perceived(protocol, gaps)
    for batch in batches(gaps):
        assert batch.present is not None
        noise = seeded(1)
        other = batch._replace(
            views=[
                torch.where(here[:, None], x, 100 * torch.randn(x.shape, generator=noise))
                for x, here in zip(batch.views, batch.present.T, strict=True)
            ]
        )
        steps: list[tuple[Step, Any]] = [
            (protocol.reconstruct, None),
            (protocol.align, None),
            (protocol.rebalance, labels),
            (protocol.rebalance, 0.5),
        ]
        for step, context in steps:
            mine, theirs = step(batch, 0.0, context), step(other, 0.0, context)
            assert mine.keys() == theirs.keys()
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        first, second = protocol.infer(batch), protocol.infer(other)
        assert torch.equal(first.embedding, second.embedding)
        assert torch.equal(first.log_proba, second.log_proba)


def test_a_view_that_a_batch_lacks_altogether_is_left_out():
    gone = [VIEWS[0], np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[1])]
    protocol = method(**CALM)
    labels = perceived(protocol, gone)
    for batch in batches(gone):
        losses = protocol.rebalance(batch, 0.0, labels)
        assert all(bool(value.isfinite()) for value in losses.values())


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_inference_gives_unit_features_and_probabilities(views):
    inferred = infer_all(method(), source(views))
    assert inferred.embedding.shape == (90, 2 * TINY.feature)
    torch.testing.assert_close(inferred.log_proba.exp().sum(1), torch.ones(90))
    norms = inferred.embedding.unflatten(1, (2, -1)).norm(dim=2)
    torch.testing.assert_close(norms, torch.ones(90, 2))


def test_perceiving_sets_a_prior_that_no_cluster_is_absent_from():
    protocol = method()
    protocol.perceive(source(VIEWS), seeded())
    assert float(protocol.prior.sum()) == pytest.approx(1)
    assert bool((protocol.prior > 0).all())
    norms = protocol.network.classifier.prototypes.norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(K))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_a_later_round_that_perceives_what_the_classifier_says_is_left_out(monkeypatch, number, known):
    protocol, data = method().requires_grad_(False), source(VIEWS)
    protocol.twins.fill_(True)
    said = infer_all(protocol, data).log_proba.argmax(1).numpy()
    found = (said + 1) % K if known else np.arange(len(said)) % K  # the names do not matter
    monkeypatch.setattr(consensus, "consensus_partition", lambda *given: found)
    before = protocol.network.classifier.prototypes.clone()
    begun = protocol.perceive(data, seeded(), number)
    assert (begun is False) is (known and number == 1)
    assert torch.equal(protocol.network.classifier.prototypes, before) is (begun is False)


def test_a_uniform_prior_leaves_the_prototypes_alone():
    protocol = method(TINY_PAPER)
    before = protocol.network.classifier.prototypes.clone()
    assert protocol.perceive(source(VIEWS), seeded()) is None
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert torch.equal(protocol.network.classifier.prototypes, before)


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_labels_carry_the_mass_asked_for(mass: float):
    labels = perceived(method(), mass=mass)
    assert float(labels.soft.sum(1).mean()) == pytest.approx(mass, abs=1e-5)
    assert float(labels.soft.sum(1).max()) <= 1 + 1e-5
    assert float(labels.log_frequency.exp().sum()) == pytest.approx(1, abs=0.05)


def test_labelling_leaves_the_network_in_training():
    protocol = method()
    perceived(protocol)
    assert protocol.training


def test_the_mass_grows_in_the_first_round_and_stays_in_the_next():
    first, second = method(label_scope="batch", rounds=2).stages()[3:5]
    assert first.prepare is not None
    assert second.prepare is not None
    masses = [first.prepare(source(VIEWS), seeded(), p, None) for p in (0.0, 0.5, 1.0)]
    assert TINY.mass_start <= masses[0] < masses[1] < masses[2] == pytest.approx(TINY.mass_end)
    assert second.prepare(source(VIEWS), seeded(), 0.0, None) == TINY.mass_end


@pytest.mark.parametrize("changes", [{}, {"rounds": 0}, {"readout": "kmeans"}], ids=str)
def test_reading_out_makes_a_prior_and_labels(changes):
    protocol = method(**changes)
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    assert bool(inferred.log_proba.isfinite().all())
    assert float(protocol.class_prior().sum()) == pytest.approx(1)
    assert float(protocol.view_weights().detach().sum()) == pytest.approx(1)


def test_k_means_reads_out_the_nearest_centre():
    protocol = method(readout="kmeans")
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    nearest = torch.cdist(inferred.embedding, protocol.centers).argmin(1)
    assert torch.equal(inferred.log_proba.argmax(1), nearest)


def trained(protocol: Protocol, views) -> list[str]:
    """The stages that had epochs, in order."""
    history = train(protocol, protocol.stages(), source(views), seeded())
    return list(dict.fromkeys(epoch.stage for epoch in history))


class TestTwins:
    """Views that show the same items need no alignment, and stand less contrast."""

    @pytest.mark.parametrize(
        ("views", "align_twins", "are", "aligned"),
        [(VIEWS, False, False, True), (TWINS, False, True, False), (TWINS, True, True, True)],
        ids=["groups", "twins", "twins by force"],
    )
    def test_views_of_the_same_items_are_aligned_on_request_alone(self, views, align_twins, are, aligned):
        protocol = method(align_twins=align_twins)
        first = ["reconstruct", "align"] if aligned else ["reconstruct twins"]
        assert trained(protocol, views) == [*first, "rebalance"]
        assert bool(protocol.twins) == are

    def test_a_single_view_has_nothing_to_be_aligned_with(self):
        assert trained(method(dims=[5]), VIEWS[:1]) == ["reconstruct twins", "rebalance"]

    def test_twins_are_found_where_views_are_missing(self):
        protocol = method()
        assert not protocol.compare_views(source(with_gaps(TWINS)), seeded())
        assert protocol.compare_views(source(with_gaps(VIEWS)), seeded())

    @pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
    def test_data_of_the_views_are_compared_where_they_are_there(self, monkeypatch, views):
        seen: dict[str, Any] = {}

        def spy(parts, mask, seed):
            seen.update(parts=parts, mask=mask, seed=seed)
            return 0.0

        monkeypatch.setattr(view_matching, "shared_information", spy)
        monkeypatch.setattr(view_matching, "MAX_SAMPLES", 50)
        method().compare_views(source(views), seeded(3))
        seed = draw_seed(seeded(3))
        rows = np.random.default_rng(seed).permutation(90)[:50]
        data = [x.numpy() for x in source(views).take(torch.from_numpy(rows)).views]
        here = ~np.isnan([x[rows, 0] for x in views]).T
        assert seen["seed"] == seed
        np.testing.assert_array_equal(seen["mask"], here)
        np.testing.assert_array_equal(
            np.hstack(seen["parts"]), np.hstack(consensus.principal_components(data, here, seed))
        )

    @pytest.mark.parametrize("value", [1e16, 1e38, -1e38])
    def test_numbers_beyond_all_bounds_are_left_to_the_training(self, value: float):
        views = as_views([np.where(np.arange(len(view)) == 3, value, view.T).T for view in TWINS])
        plain = Source(views, fit_scalers(views, "none"), batch_size=32, device=torch.device("cpu"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert method().compare_views(plain, seeded())

    @pytest.mark.parametrize("k", [2, 30])
    def test_the_bound_is_that_of_the_number_of_clusters(self, monkeypatch, k: int):
        monkeypatch.setattr(view_matching, "shared_information", lambda *given: 3.0)
        protocol = build(lambda: Protocol(TINY, DIMS, k), seeded())
        assert protocol.compare_views(source(VIEWS), seeded()) == (view_matching.group_information(k) > 3)

    @pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
    def test_their_contrasts_in_the_last_stage_have_a_weight(self, weight: float):
        protocol = method(**CALM, twins_weight=weight)
        batch, labels = batches()[0], perceived(protocol)
        apart = protocol.rebalance(batch, 0.0, labels)
        protocol.twins.fill_(True)
        same = protocol.rebalance(batch, 0.0, labels)
        assert same.keys() == apart.keys()
        for name, value in apart.items():
            torch.testing.assert_close(same[name], value * (weight if name in ("feature", "class") else 1))

    def test_their_weight_leaves_the_alignment_alone(self):
        protocol = method(**CALM, twins_weight=0.0)
        before = protocol.align(batches()[0], 0.0, None)
        protocol.twins.fill_(True)
        assert protocol.align(batches()[0], 0.0, None) == before

    @pytest.mark.parametrize(
        ("twin", "align_twins", "number", "codes"),
        [(True, False, 0, True), (True, False, 1, False), (True, True, 0, False), (False, False, 0, False)],
        ids=["not aligned", "next round", "aligned", "groups"],
    )
    def test_codes_are_perceived_before_anything_has_trained_the_features(
        self, monkeypatch, twin, align_twins, number, codes
    ):
        seen: list[tuple[Any, ...]] = []
        module, real = (
            (consensus, consensus.consensus_partition) if twin else (codebook, codebook.select_partition)
        )

        def spy(*given, **options):
            seen.append(given)
            return real(*given, **options)

        monkeypatch.setattr(module, "perceive", spy)
        protocol, data = method(align_twins=align_twins).requires_grad_(False), source(VIEWS)
        protocol.twins.fill_(twin)
        protocol.perceive(data, seeded(3), number)
        (given,) = seen
        x = given[0] if twin else np.hstack(given[0])
        np.testing.assert_array_equal(
            x, protocol._codes(data) if codes else infer_all(protocol, data).embedding
        )
        assert given[1:] == (K, draw_seed(seeded(3)), 2) if twin else given[-2:] == (K, draw_seed(seeded(3)))


class TestCodes:
    def test_they_are_centred_unit_rows_with_zeros_for_what_is_absent(self):
        protocol, views = method(), with_gaps(VIEWS)
        data = source(views)
        found = protocol._codes(data).unflatten(1, (2, TINY.latent))
        for v, x in enumerate(views):
            there = torch.from_numpy(~np.isnan(x[:, 0]))
            z = protocol.network.encode([data._scaled[u] for u in range(2)]).z[v][there]
            torch.testing.assert_close(
                found[there, v], functional.normalize(z - z.mean(0)), rtol=1e-4, atol=1e-5
            )
            assert not found[~there, v].any()

    def test_many_blocks_are_as_good_as_one(self):
        protocol, times = method(), -(-BLOCK // 90) + 1
        many = protocol._codes(source([np.tile(x, (times, 1)) for x in VIEWS]))
        once = protocol._codes(source(VIEWS))
        torch.testing.assert_close(many, once.repeat(times, 1), rtol=1e-3, atol=1e-4)

    def test_a_view_that_hardly_any_sample_has_stays_finite(self):
        views = [VIEWS[0], np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[1])]
        assert bool(method()._codes(source(views)).isfinite().all())


def trusted(protocol: Protocol, data: Source, seed: int = 0) -> PotLabels:
    """What a round begins with, as the labels that are learned first."""
    found = protocol.perceive(data, seeded(seed))
    assert isinstance(found, torch.Tensor)
    return protocol._trusted(found)


class TestPerceived:
    @pytest.mark.parametrize("twin", [False, True])
    def test_the_assignment_becomes_labels_to_learn(self, twin: bool):
        protocol, data = method().requires_grad_(False), source(VIEWS)
        protocol.twins.fill_(twin)
        labels = trusted(protocol, data, 3)
        seed = draw_seed(seeded(3))
        if twin:
            expected = consensus.consensus_partition(protocol._codes(data).numpy(), K, seed, 2)
        else:
            expected = protocol._explain_views(data, infer_all(protocol, data).embedding.numpy(), seed)
        np.testing.assert_array_equal(labels.hard, expected)
        assert torch.equal(labels.soft, functional.one_hot(labels.hard, K).to(labels.soft))
        sizes = torch.bincount(labels.hard, minlength=K)
        torch.testing.assert_close(protocol.prior, (sizes + 1) / (90 + K))
        torch.testing.assert_close(labels.log_frequency, protocol.prior.log())

    @pytest.mark.parametrize("anew", [False, True])
    @pytest.mark.parametrize("number", [0, 1])
    def test_of_samples_drawn_anew_a_later_round_hears_the_classifier(
        self, monkeypatch: pytest.MonkeyPatch, number: int, anew: bool
    ):
        protocol, data, heard = method().requires_grad_(False), source(VIEWS), list[Any]()
        data.is_subsample = anew
        said = infer_all(protocol, data).log_proba.argmax(1).numpy()

        def perceive(*given: Any, plain: bool, known: Any) -> consensus.Labels:
            heard.extend([plain, known])
            return said

        monkeypatch.setattr(codebook, "select_partition", perceive)
        assert (protocol.perceive(data, seeded(), number) is False) is (number == 1)
        plain, known = heard
        assert plain is (number == 0 or anew)
        assert (known is None) is not (number == 1 and anew)
        assert known is None or (known == said).all()

    def test_prototypes_are_the_means_of_the_features_even_where_codes_were_trusted(self):
        protocol, data = method(), source(VIEWS)
        protocol.twins.fill_(True)
        h = infer_all(protocol, data).embedding.unflatten(1, (2, TINY.feature))
        labels = trusted(protocol, data)
        for cluster, prototype in enumerate(protocol.network.classifier.prototypes):
            mean = h[labels.hard == cluster].mean((0, 1))
            torch.testing.assert_close(prototype, functional.normalize(mean, dim=0))

    def test_labels_live_where_the_method_lives(self):
        protocol = method()
        labels = trusted(protocol, source(VIEWS))
        assert {part.device for part in labels} == {protocol.prior.device}
        assert labels.soft.dtype == labels.log_frequency.dtype == protocol.prior.dtype
        assert labels.hard.dtype == torch.int64

    def test_they_are_labels_that_a_step_learns(self):
        protocol = method()
        labels = trusted(protocol, source(VIEWS))
        losses = protocol.rebalance(batches()[0], 0.0, labels)
        assert all(bool(value.isfinite()) for value in losses.values())
        assert touched(protocol, losses) == ALL_PARTS


class TestTrust:
    @pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
    @pytest.mark.parametrize("scope", ["all", "batch"])
    @pytest.mark.parametrize("number", [0, 1])
    def test_the_first_part_of_a_round_learns_what_was_perceived(
        self, monkeypatch: pytest.MonkeyPatch, trust: float, scope: str, number: int
    ):
        monkeypatch.setattr(consensus, "same_partition", lambda *given: False)
        stage = method(trust=trust, label_scope=scope, rounds=2).stages()[3 + number]
        assert stage.begin is not None
        assert stage.prepare is not None
        begun = stage.begin(source(VIEWS), seeded())
        for progress in (0.0, 0.3, 0.5, 1.0):
            context = stage.prepare(source(VIEWS), seeded(), progress, begun)
            if progress < trust:
                assert isinstance(begun, torch.Tensor)
                assert torch.equal(context.hard, begun)
                assert torch.equal(context.soft, functional.one_hot(begun, K).to(context.soft))
            else:
                assert isinstance(context, PotLabels if scope == "all" else float)

    def test_where_nothing_was_perceived_nothing_is_trusted(self):
        stage = method(TINY_PAPER, trust=1.0).stages()[3]
        assert stage.begin is not None
        assert stage.prepare is not None
        begun = stage.begin(source(VIEWS), seeded())
        assert begun is None
        assert isinstance(stage.prepare(source(VIEWS), seeded(), 0.0, begun), float)

    def test_the_ramp_of_the_mass_is_that_of_the_whole_round(self):
        stage = method(trust=0.4, label_scope="batch").stages()[3]
        early = method(trust=0.0, label_scope="batch").stages()[3]
        assert stage.begin is not None
        assert stage.prepare is not None
        assert early.prepare is not None
        begun = stage.begin(source(VIEWS), seeded())
        for progress in (0.5, 1.0):
            given = (source(VIEWS), seeded(), progress, begun)
            assert stage.prepare(*given) == early.prepare(*given)


class TestEnd:
    @pytest.mark.parametrize("early_end", [True, False])
    @pytest.mark.parametrize("strays", [0, 1])
    @pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
    def test_a_round_is_over_once_the_classifier_says_what_the_transport_of_all_mass_says(
        self, monkeypatch: pytest.MonkeyPatch, progress: float, strays: int, early_end: bool
    ):
        protocol, data = method(trust=0.0, early_end=early_end), source(VIEWS)
        stage = protocol.stages()[3]
        assert stage.begin is not None
        assert stage.prepare is not None
        begun = stage.begin(data, seeded())
        known = infer_all(protocol, data).log_proba.argmax(1)

        def labels(log_p: torch.Tensor, mass: float) -> PotLabels:
            hard = known.clone()
            if strays or mass < 1:  # with a part of the mass they never agree
                hard[:1] = (hard[:1] + 1) % K
            return PotLabels(functional.one_hot(hard, K).to(log_p), hard, torch.zeros(K))

        monkeypatch.setattr(protocol, "_pot_labels", labels)
        protocol.train()
        context = stage.prepare(data, seeded(), progress, begun)
        assert (context is False) is (early_end and progress > 0 and strays == 0)
        assert protocol.training

    @pytest.mark.parametrize("progress", [0.0, 0.5])
    def test_what_is_perceived_is_learned_to_the_end(self, monkeypatch: pytest.MonkeyPatch, progress: float):
        monkeypatch.setattr(consensus, "same_partition", lambda *given: True)
        stage = method(trust=0.6, early_end=True).stages()[3]
        assert stage.begin is not None
        assert stage.prepare is not None
        begun = stage.begin(source(VIEWS), seeded())
        assert isinstance(stage.prepare(source(VIEWS), seeded(), progress, begun), PotLabels)
