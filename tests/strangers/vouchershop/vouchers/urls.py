from django.urls import path

from vouchers import views

urlpatterns = [
    path("", views.create_voucher),
    path("<slug:code>/redemptions", views.create_redemption),
]
