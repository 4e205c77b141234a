"""The refunds service written with Django's ORM; the settings are made once, the database is named by the test."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import AppConfig
from django.conf import settings
from django.db import connection, connections, models, transaction

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nonexistent/none.db"}},
    INSTALLED_APPS=[],
    USE_TZ=True,
)
django.setup()


class _Shop(AppConfig):
    name = label = "shop"
    path = "."


class Account(models.Model):
    id = models.TextField(primary_key=True)
    credit_balance_eur = models.DecimalField(max_digits=12, decimal_places=2)

    class Meta:
        app_label = "shop"
        managed = False
        db_table = "accounts"


class CreditLog(models.Model):
    account_id = models.TextField()
    amount_eur = models.DecimalField(max_digits=12, decimal_places=2)

    class Meta:
        app_label = "shop"
        managed = False
        db_table = "credit_log"


class Dispute(models.Model):
    id = models.TextField(primary_key=True)

    class Meta:
        app_label = "shop"
        managed = False
        db_table = "disputes"


class Refund(models.Model):
    dispute_id = models.TextField()
    amount_eur = models.DecimalField(max_digits=12, decimal_places=2)
    state = models.TextField()

    class Meta:
        app_label = "shop"
        managed = False
        db_table = "refunds"


def use(**facts: Any) -> None:
    """Point Django's default database somewhere else, in every thread."""
    connections.close_all()
    connections.settings["default"].update(
        {"ENGINE": "", "NAME": "", "USER": "", "PASSWORD": "", "HOST": "", "PORT": ""}
    )
    connections.settings["default"].update(facts)
    if hasattr(connections._connections, "default"):
        del connections["default"]


def duplicate() -> None:
    with transaction.atomic():
        _read_then_insert()


def duplicate_without_a_transaction() -> None:
    _read_then_insert()


def lone_duplicate() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT 'dsp_1', 40, 'settled' WHERE NOT EXISTS "
            "(SELECT 1 FROM refunds WHERE dispute_id = 'dsp_1' AND state = 'settled')"
        )


def duplicate_by_a_function() -> None:
    if not Refund.objects.filter(dispute_id="dsp_1", state="settled").exists():
        with connection.cursor() as cursor:
            cursor.callproc("refund_once", params=["dsp_1"])


def duplicate_behind_a_lock() -> None:
    with transaction.atomic():
        Dispute.objects.select_for_update().get(id="dsp_1")
        _read_then_insert()


def lost_update() -> None:
    with transaction.atomic():
        _add(Account.objects.get(id="acc_1"))


def update_behind_a_lock() -> None:
    with transaction.atomic():
        _add(Account.objects.select_for_update().get(id="acc_1"))


def atomic_update() -> None:
    with transaction.atomic():
        Account.objects.filter(id="acc_1").update(credit_balance_eur=models.F("credit_balance_eur") + 50)
        CreditLog.objects.create(account_id="acc_1", amount_eur=50)


async def asynchronous_duplicate() -> None:
    if not await Refund.objects.filter(dispute_id="dsp_1", state="settled").aexists():
        await Refund.objects.acreate(dispute_id="dsp_1", amount_eur=40, state="settled")


async def asynchronous_duplicate_behind_a_lock() -> None:
    await sync_to_async(duplicate_behind_a_lock)()


def _read_then_insert() -> None:
    if not Refund.objects.filter(dispute_id="dsp_1", state="settled").exists():
        Refund.objects.create(dispute_id="dsp_1", amount_eur=40, state="settled")


def _add(account: Account) -> None:
    account.credit_balance_eur += Decimal(50)
    account.save(update_fields=["credit_balance_eur"])
    CreditLog.objects.create(account_id="acc_1", amount_eur=50)
