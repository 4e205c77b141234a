import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Voucher",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.SlugField(max_length=40, unique=True)),
                ("max_redemptions", models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name="Redemption",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.EmailField(max_length=254)),
                ("order_number", models.PositiveIntegerField()),
                ("redeemed_at", models.DateTimeField(auto_now_add=True)),
                (
                    "voucher",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="redemptions", to="vouchers.voucher"
                    ),
                ),
            ],
        ),
    ]
