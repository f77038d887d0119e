"""Masking of secrets in text that leaves the machine: alerts, STATUS.md, what agents read. Files stay as they are.

By pattern, so neither complete nor exact: values of names that speak of a secret, tokens of known forms, credentials in
URLs and headers. Numbers are never taken for secrets, nor are the special tokens of a tokenizer: ``max_tokens=64`` and
``pad_token=<pad>`` stay readable.
"""

import re

MASK = "***"

_SECRET_NAME = (
    r"(?!(?:\w*[_.-])?(?:eos|bos|pad|unk|sep|cls|mask)_token\b)"
    r"(?:[A-Za-z0-9_.-]*[_.-])?"
    r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|token|secret|password|passwd|credentials?)"
)
_VALUE = r"(?!\*\*\*|(?:[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|none|null)(?:[\s\"',;&)\]}]|$))[^\s\"',;&)\]}]+"

_NAMED = re.compile(rf"(?i)(?<![\w.-])({_SECRET_NAME}[\"']?\s*[=:]\s*[\"']?)(?!bearer\b|basic\b){_VALUE}")
# Only where a word begins, as above: within a long rule of dashes every dash would be tried as a beginning.
_FLAG = re.compile(rf"(?i)(?<![\w.-])(--{_SECRET_NAME}[ =]+[\"']?)(?!--){_VALUE}")
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

_PATTERNS = (_PEM, _WEBHOOK, _USERINFO, _HEADER, _BEARER, _KNOWN_FORMS, _JWT, _NAMED, _FLAG)


def mask_secrets(text: str) -> str:
    """``text`` with what looks like a secret replaced by ``***``; the name or prefix that tells its kind stays.

    >>> mask_secrets("WANDB_API_KEY=0123abcd step=4")
    'WANDB_API_KEY=*** step=4'
    """
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text
