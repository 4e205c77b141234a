import json

from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from vouchers.models import Voucher
from vouchers.services import UsedUp, redeem


@csrf_exempt
@require_POST
def create_voucher(request):
    body = json.loads(request.body)
    voucher = Voucher.objects.create(code=body["code"], max_redemptions=body.get("max_redemptions", 1))
    return JsonResponse({"code": voucher.code, "max_redemptions": voucher.max_redemptions}, status=201)


@csrf_exempt
@require_POST
def create_redemption(request, code):
    try:
        body = json.loads(request.body)
        customer, order_number = body["customer"], int(body["order_number"])
    except (ValueError, KeyError):
        return JsonResponse({"error": "customer and order_number are needed"}, status=400)
    try:
        redemption = redeem(code, customer, order_number)
    except Voucher.DoesNotExist:
        return JsonResponse({"error": "no such voucher"}, status=404)
    except UsedUp:
        return JsonResponse({"error": "the voucher has been used up"}, status=409)
    return JsonResponse({"id": redemption.id}, status=201)
