from django.db import transaction

from vouchers.models import Voucher


class UsedUp(Exception):
    pass


@transaction.atomic
def redeem(code, customer, order_number):
    voucher = Voucher.objects.get(code=code)
    if voucher.redemptions.count() >= voucher.max_redemptions:
        raise UsedUp(code)
    return voucher.redemptions.create(customer=customer, order_number=order_number)
