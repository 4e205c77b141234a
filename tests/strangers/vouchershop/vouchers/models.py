from django.db import models


class Voucher(models.Model):
    code = models.SlugField(max_length=40, unique=True)
    max_redemptions = models.PositiveIntegerField(default=1)

    def __str__(self):
        return self.code


class Redemption(models.Model):
    voucher = models.ForeignKey(Voucher, on_delete=models.PROTECT, related_name="redemptions")
    customer = models.EmailField()
    order_number = models.PositiveIntegerField()
    redeemed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self):
        return f"{self.voucher} for order {self.order_number}"
