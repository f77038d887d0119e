"""Masking of secrets in text that leaves the machine: alerts, STATUS.md, what agents read. Files stay as they are.

By pattern, so neither complete nor exact: values of names that speak of a secret, tokens of known forms, credentials in
URLs and headers. A number is a secret after a name such as ``password`` or ``api_key``; after ``token`` only when it is
an integer of many digits, since there it is mostly a count or an id. Special tokens of a tokenizer are none either:
``max_tokens=64``, ``token: 271`` and ``pad_token=<pad>`` stay readable.
"""

import re

MASK = "***"

_KEY_NAME = (
    r"(?:[A-Za-z0-9_.-]*"
    r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|password|passwd|passphrase)"
    r"|(?:[A-Za-z0-9_.-]*[_.-])?credentials?)"
)
_TOKEN_NAME = r"(?!(?:\w*[_.-])?(?:eos|bos|pad|unk|sep|cls|mask)_token\b)(?:[A-Za-z0-9_.-]*[_.-])?token"
_END = r"(?:[\s\"',;&)\]}]|$)"
_KEY_VALUE = rf"(?!\*\*\*|(?:true|false|none|null){_END})[^\s\"',;&)\]}}]+"
_TOKEN_VALUE = rf"(?!(?:[-+]?\d{{1,9}}|[-+]?\d*\.\d*(?:e[-+]?\d+)?){_END}){_KEY_VALUE}"


def _named(name: str, value: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """``name=value`` and ``--name value``."""
    # Only where a word begins: within a long rule of dashes every dash would be tried as a beginning.
    return (
        re.compile(rf"(?i)(?<![\w.-])({name}[\"']?\s*[=:]\s*[\"']?)(?!bearer\b|basic\b){value}"),
        re.compile(rf"(?i)(?<![\w.-])(--{name}[ =]+[\"']?)(?!--){value}"),
    )


_HEADER = re.compile(
    r"(?i)(\bauthorization[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)(?!\*\*\*|(?:bearer|basic|token)\s)[^\s\"',;]+"
)
_BEARER = re.compile(r"(?i)(\bbearer\s+)(?=[^\s\"',;]*[\d._-])[A-Za-z0-9._~+/=-]{8,}")
_USERINFO = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")
_WEBHOOK = re.compile(
    r"(?i)(https?://(?:hooks\.slack\.com/(?:services|workflows)|(?:\w+\.)?discord(?:app)?\.com/api/webhooks"
    r"|[\w.-]*webhook\.office\.com|api\.telegram\.org)/)[^\s\"'<>*][^\s\"'<>]*"
)
_KNOWN_FORMS = re.compile(
    r"\b(hf_|sk-|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[abeprs]-|AKIA|AIza|wandb_v1_|pit_)[A-Za-z0-9_-]{12,}"
)
_JWT = re.compile(r"\b(eyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
_PEM = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:(?=-----END)|\Z)", re.S)

_KEYS = _named(_KEY_NAME, _KEY_VALUE)
_TOKENS = _named(_TOKEN_NAME, _TOKEN_VALUE)

_SIGNS = re.compile(
    r"(?i)key|secret|passw|passphrase|credential|token[\"']?[\s=:]|bearer|authorization|://|hf_|sk-|gh[opsu]_|github_pat_"
    r"|glpat-|xox[abeprs]-|akia|aiza|wandb_v1_|pit_|eyj|-----begin"
)
"""Every match of a pattern below holds one of these, so that most text is looked through once instead of 13 times."""

_PATTERNS = (_PEM, _WEBHOOK, _USERINFO, _HEADER, _BEARER, _KNOWN_FORMS, _JWT, *_KEYS, *_TOKENS)


def mask_secrets(text: str) -> str:
    """``text`` with what looks like a secret replaced by ``***``; the name or prefix that tells its kind stays.

    >>> mask_secrets("WANDB_API_KEY=0123abcd step=4")
    'WANDB_API_KEY=*** step=4'
    """
    if _SIGNS.search(text) is None:
        return text
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text
