import pytest
from django.test import Client


@pytest.mark.parametrize("body", ["", "{}", '{"customer": "ada@example.com"}', "not json"])
def test_a_redemption_names_a_customer_and_an_order(body):
    answer = Client().post("/vouchers/SPRING/redemptions", body, content_type="application/json")
    assert answer.status_code == 400
