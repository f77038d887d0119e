import json
import math

from prl.synth.signals import EPSILON, FALSE, RING, listed, token_signals

signals = token_signals()


def test_streams_agree_with_their_definitions() -> None:
    place, count = 1000, 20_000
    engine = json.loads(listed(signals.logprobs(place, count)))
    trainer = json.loads(listed(signals.trainer_logprobs(place, count)))
    kl = json.loads(listed(signals.mismatch_kl(place, count)))
    masked = json.loads(listed(signals.is_masked(place, count)))
    entropies = json.loads(listed(signals.entropies(place, count)))
    assert {len(values) for values in (engine, trainer, kl, masked, entropies)} == {count}
    for mu, pi, divergence, is_masked in zip(engine, trainer, kl, masked, strict=True):
        difference = pi - mu
        assert math.isclose(divergence, math.exp(difference) - difference - 1, abs_tol=1e-6)
        assert is_masked == (abs(math.exp(pi) - math.exp(mu)) > EPSILON)
    assert 0 < sum(masked) < 0.02 * count
    assert all(value > 0 for value in entropies)


def test_a_stretch_may_end_where_the_ring_ends() -> None:
    assert len(json.loads(listed(signals.logprobs(RING - 3, 3)))) == 3
    assert listed() == b"[]"
    assert listed(FALSE * 2) == b"[false,false]"
