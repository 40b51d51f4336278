// The arguments of the older operator interface, aclopCompileAndExecute. torch_npu builds them for
// operators without an aclnn form; the call itself is refused, by the operator's name.
#include <acl/acl_op.h>
#include <acl/acl_op_compiler.h>

#include <vector>

#include "status.h"

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
};

struct aclDataBuffer {
  void* data;
  size_t bytes;
};

struct aclopAttr {};

using namespace emu;

CANN_API aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                            aclFormat format) {
  if (numDims < 0 || (numDims > 0 && dims == nullptr)) return nullptr;
  return new aclTensorDesc{dataType, format, std::vector<int64_t>(dims, dims + numDims)};
}

CANN_API void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }
CANN_API aclDataType aclGetTensorDescType(const aclTensorDesc* desc) { return desc->type; }
CANN_API aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) { return desc->format; }
CANN_API size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc->dims.size(); }

CANN_API aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* size) {
  return api(__func__, [&]() -> Status {
    if (index >= desc->dims.size()) {
      return error(ACL_ERROR_INVALID_PARAM, "index %zu, but there are %zu dims", index,
                   desc->dims.size());
    }
    *size = desc->dims[index];
    return {};
  });
}

// The storage's format and shape, the name and the place: only the operator would read them.
CANN_API void aclSetTensorDescName(aclTensorDesc*, const char*) {}
CANN_API aclError aclSetTensorFormat(aclTensorDesc*, aclFormat) { return ACL_SUCCESS; }
CANN_API aclError aclSetTensorShape(aclTensorDesc*, int, const int64_t*) { return ACL_SUCCESS; }
CANN_API aclError aclSetTensorPlaceMent(aclTensorDesc*, aclMemType) { return ACL_SUCCESS; }

CANN_API aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return new aclDataBuffer{data, size};
}

CANN_API aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  delete dataBuffer;
  return ACL_SUCCESS;
}

CANN_API aclopAttr* aclopCreateAttr() { return new aclopAttr; }
CANN_API void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }

// Attributes: only the operator would read them.
CANN_API aclError aclopSetAttrBool(aclopAttr*, const char*, uint8_t) { return ACL_SUCCESS; }
CANN_API aclError aclopSetAttrInt(aclopAttr*, const char*, int64_t) { return ACL_SUCCESS; }
CANN_API aclError aclopSetAttrFloat(aclopAttr*, const char*, float) { return ACL_SUCCESS; }
CANN_API aclError aclopSetAttrString(aclopAttr*, const char*, const char*) { return ACL_SUCCESS; }
CANN_API aclError aclopSetAttrDataType(aclopAttr*, const char*, aclDataType) {
  return ACL_SUCCESS;
}
CANN_API aclError aclopSetAttrListBool(aclopAttr*, const char*, int, const uint8_t*) {
  return ACL_SUCCESS;
}
CANN_API aclError aclopSetAttrListInt(aclopAttr*, const char*, int, const int64_t*) {
  return ACL_SUCCESS;
}
CANN_API aclError aclopSetAttrListFloat(aclopAttr*, const char*, int, const float*) {
  return ACL_SUCCESS;
}
CANN_API aclError aclopSetAttrListListInt(aclopAttr*, const char*, int, const int*,
                                          const int64_t* const[]) {
  return ACL_SUCCESS;
}

CANN_API aclError aclopCompileAndExecute(const char* opType, int, const aclTensorDesc* const[],
                                         const aclDataBuffer* const[], int,
                                         const aclTensorDesc* const[], aclDataBuffer* const[],
                                         const aclopAttr*, aclopEngineType, aclopCompileType,
                                         const char*, aclrtStream) {
  return api(__func__, [&] {
    return error(ACL_ERROR_OP_NOT_FOUND, "operator %s is not emulated (only aclnn operators are)",
                 opType == nullptr ? "(null)" : opType);
  });
}

CANN_API aclError aclopCompileAndExecuteV2(const char* opType, int, aclTensorDesc*[],
                                           aclDataBuffer*[], int, aclTensorDesc*[],
                                           aclDataBuffer*[], aclopAttr*, aclopEngineType,
                                           aclopCompileType, const char*, aclrtStream) {
  return api(__func__, [&] {
    return error(ACL_ERROR_OP_NOT_FOUND, "operator %s is not emulated (only aclnn operators are)",
                 opType == nullptr ? "(null)" : opType);
  });
}
