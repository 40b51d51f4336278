// Operators of one tensor, for the families that are made of them.
#pragma once

#include "operator.h"

#define UNARY(Name, function) \
  OPERATOR(aclnn##Name, In self, Out out) { write(out, at::function(self)); }
#define INPLACE(Name, function) \
  OPERATOR(aclnnInplace##Name, Out self) { write(self, at::function(self)); }
