"""Secrets are masked, and what only looks like one is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.text import secrets
from prl.text.secrets import mask_secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("WANDB_API_KEY=" + "0" * 39 + "f", "WANDB_API_KEY=***"),
        ("WANDB_API_KEY=" + "0" * 40, "WANDB_API_KEY=***"),
        ("password=12345678", "password=***"),
        ("PGPASSWORD=12345 psql", "PGPASSWORD=*** psql"),
        ('{"db.passwd": 4711, "step": 4}', '{"db.passwd": ***, "step": 4}'),
        ("prl --token 123456789012 --steps 3", "prl --token *** --steps 3"),
        ("--client-secret=1e5", "--client-secret=***"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer ***"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"),
        ('{"Authorization": "Token q1w2e3"}', '{"Authorization": "Token ***"}'),
        ("got 401 with bearer abc123def456", "got 401 with bearer ***"),
        ("https://hooks.slack.com/services/T000/B000/XXXX", "https://hooks.slack.com/services/***"),
        ("https://discord.com/api/webhooks/12/ab-c now", "https://discord.com/api/webhooks/*** now"),
        ("hf_" + "A" * 34, "hf_***"),
        ("sk-proj-" + "a1" * 12 + ", then", "sk-***, then"),
        ("postgres://me:hunter2@db/x", "postgres://me:***@db/x"),
        ('{"api_key": "s3cret", "step": 4}', '{"api_key": "***", "step": 4}'),
        ("rl @ a.toml --wandb.api-key abcdef --max-steps 4", "rl @ a.toml --wandb.api-key *** --max-steps 4"),
        ("https://x.invalid/hook?token=abcdef&step=3", "https://x.invalid/hook?token=***&step=3"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.sIgNaTuRe", "eyJ***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked, "masking twice changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "Step 37 |   14.2s | Loss -0.0031 | Entropy 0.4127 | LR 1.00e-06 | Throughput 21877 tokens/s | MFU 31.4%",
        "orchestrator.train.sampling.max_tokens=64 token_ids=[1, 2] num_total_tokens: 118",
        "tokenizer: models/tiny, pad_token=<pad>, eos_token: </s>",
        '{"token": 5, "password": null}',
        "max_tokens=16 num_tokens: 5365 token_id=27 token: 151643 token=-0.6931471805599453",
        "train/agg/effective/agent/reward/mean",
    ],
)
def test_left_alone(text: str) -> None:
    assert mask_secrets(text) == text


def test_a_long_line_without_a_word_is_no_work() -> None:
    """Tried at every dash, a rule of this length would take minutes."""
    assert mask_secrets("-" * 20_000) == "-" * 20_000
    assert mask_secrets("secret-" * 3_000) == "secret-" * 3_000
    assert mask_secrets("--a" * 7_000) == "--a" * 7_000


@given(
    st.lists(
        st.sampled_from(
            ["key", "API_KEY=", "token", "token: ", "'", " ", "=", "x1", "://u:p@h", "hf_", "A" * 12, "Bearer "]
        )
    )
)
def test_the_quick_look_lets_nothing_through(parts: list[str]) -> None:
    text = expected = "".join(parts)
    for pattern in secrets._PATTERNS:
        expected = pattern.sub(r"\1***", expected)
    assert mask_secrets(text) == expected
