"""Secrets are gone from a text, the rest stays."""

import json
import time

import pytest

from airflow_delta.jobs.redaction import redact
from tests.secret_cases import MESSAGES, ORDINARY_MESSAGES, SETTING_VALUES, SETTINGS, TEXTS, WORD

FORMS = [*TEXTS, *MESSAGES, *((f"{name}={WORD}", WORD) for name in SETTINGS), *((value, WORD) for _, value in SETTING_VALUES)]


@pytest.mark.parametrize(("text", "secret"), FORMS, ids=range(len(FORMS)))
def test_a_secret_is_gone(text, secret):
    assert secret not in redact(text)
    assert secret not in redact(f"before {text} after")


def test_a_secret_that_the_process_has_is_gone_in_whatever_form(monkeypatch):
    options = {
        "azure": {"connection_string": "AccountName=acc;AccountKey=hun+ter2=="},
        "s3": {"key": "AKIAMINE", "anon": False},
    }
    monkeypatch.setenv("AIRFLOW_DELTA_STORAGE_OPTIONS", json.dumps(options))
    assert redact("no AKIAMINE may hun+ter2== here") == "no *** may *** here"
    monkeypatch.setenv("AIRFLOW_DELTA_STORAGE_OPTIONS", "AKIAMINE")
    assert redact("no AKIAMINE") == "no AKIAMINE"


@pytest.mark.parametrize("text", ORDINARY_MESSAGES)
def test_an_ordinary_text_stays(text):
    assert redact(text) == text


def test_of_a_text_without_end_the_beginning_and_the_end_stay():
    text = redact("first\n" + "x" * 1_000_000 + "\npassword=hunter2\nlast")
    assert len(text) < 500_000
    assert text.startswith("first\n")
    assert text.endswith("\npassword=***\nlast")


@pytest.mark.parametrize(
    "piece",
    [
        "password='",
        "password=''",
        "password=''a''''",
        "password=''a",
        "password ''a",
        "'password', b'",
        "Authorization: Token ",
        "authorization=" + "a" * 39 + " ",
        "a://a@",
        "a://a:a@",
        "a://" + "@" * 400 + ":",
    ],
)
def test_time_grows_with_the_text_alone(piece):
    def took(length):
        text = (piece * length)[:length]
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    assert took(200_000) < 40 * max(took(20_000), 0.005)
