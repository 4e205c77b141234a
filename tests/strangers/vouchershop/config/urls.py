from django.urls import include, path

urlpatterns = [path("vouchers/", include("vouchers.urls"))]
