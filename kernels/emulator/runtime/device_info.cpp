// What the emulated chip says of itself.
#include <array>
#include <atomic>
#include <cstring>

#include "device.h"
#include "options.h"

namespace emu {
namespace {

Status unknown_attribute(int attribute) {
  return error(ACL_ERROR_RT_PARAM_INVALID, "attribute %d is not emulated", attribute);
}

Status attribute_of_chip(aclrtDevAttr attribute, int64_t& value) {
  switch (attribute) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      value = chip().cube_cores;
      return {};
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      value = chip().vector_cores;
      return {};
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
      value = static_cast<int64_t>(chip().ub_bytes);
      return {};
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      value = static_cast<int64_t>(chip().hbm_bytes);
      return {};
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      value = static_cast<int64_t>(chip().l2_bytes);
      return {};
    case ACL_DEV_ATTR_NPU_ARCH:
      value = chip().arch;
      return {};
    default:
      return unknown_attribute(attribute);
  }
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API const char* aclrtGetSocName() {
  try {
    return chip().soc.c_str();
  } catch (...) {
    finish(__func__, current_exception());
    return nullptr;
  }
}

CANN_API aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    Status status = check_device_id(deviceId);
    return status.ok() ? attribute_of_chip(attr, *value) : status;
  });
}

CANN_API aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo info, int64_t* value) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    Status status = check_device_id(deviceId);
    if (!status.ok()) return status;
    switch (info) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        return attribute_of_chip(ACL_DEV_ATTR_CUBE_CORE_NUM, *value);
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        return attribute_of_chip(ACL_DEV_ATTR_VECTOR_CORE_NUM, *value);
      case ACL_DEVICE_INFO_L2_SIZE:
        return attribute_of_chip(ACL_DEV_ATTR_L2_CACHE_SIZE, *value);
      default:
        return unknown_attribute(info);
    }
  });
}

// "emulated" and the device's number: stable, and unlike any card's.
CANN_API aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return api(__func__, [&]() -> Status {
    if (uuid == nullptr) return null_argument("uuid");
    Status status = check_device_id(deviceId);
    if (!status.ok()) return status;
    *uuid = {{'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'}};
    uuid->bytes[sizeof uuid->bytes - 1] = static_cast<char>(deviceId);
    return {};
  });
}

CANN_API aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId,
                                           int32_t peerDeviceId) {
  return api(__func__, [&]() -> Status {
    if (canAccessPeer == nullptr) return null_argument("canAccessPeer");
    Status status = check_device_id(deviceId);
    if (status.ok()) status = check_device_id(peerDeviceId);
    if (status.ok()) *canAccessPeer = deviceId != peerDeviceId;
    return status;
  });
}

CANN_API aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t) {
  return api(__func__, [&] { return check_device_id(peerDeviceId); });
}

CANN_API aclError aclGetCannAttribute(aclCannAttr attr, int32_t* value) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    *value = attr == ACL_CANN_ATTR_INF_NAN || attr == ACL_CANN_ATTR_BF16;
    return {};
  });
}

CANN_API aclError aclGetCannAttributeList(const aclCannAttr** list, size_t* num) {
  return api(__func__, [&]() -> Status {
    static const aclCannAttr attributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
    if (list == nullptr) return null_argument("cannAttrList");
    if (num == nullptr) return null_argument("num");
    *list = attributes;
    *num = std::size(attributes);
    return {};
  });
}
