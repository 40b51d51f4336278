// Random numbers. The card's generator is Philox; here a call's seed and offset choose a state of
// ATen's CPU generator: equal seeds give equal numbers, but not the numbers of a card.
#include "operator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/normal.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

using namespace emu;

namespace {

// Neighbouring seeds and offsets end far apart (the finalizer of splitmix64).
at::Generator generator(int64_t seed, int64_t offset) {
  uint64_t x = uint64_t(seed) * 0x9e3779b97f4a7c15u + uint64_t(offset);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return at::make_generator<at::CPUGeneratorImpl>(x ^ (x >> 31));
}

at::Tensor bit_values() {
  return at::tensor(std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64, 128}, at::kByte);
}

// A dropout mask: one bit an element, 1 to keep it, the first element in the lowest bit.
void draw_mask(const Out& mask, int64_t count, double p, const at::Generator& gen) {
  at::Tensor keep = at::zeros({mask->numel() * 8}, at::kByte);
  keep.narrow(0, 0, count).bernoulli_(1 - p, gen);
  mask->copy_(keep.view({-1, 8}).mul(bit_values()).sum(1).to(at::kByte));
}

at::Tensor masked(const at::Tensor& self, const at::Tensor& mask, double scale) {
  const at::Tensor bits = mask.unsqueeze(1).bitwise_and(bit_values()).ne(0).view(-1);
  const at::Tensor keep = bits.narrow(0, 0, self.numel()).view(self.sizes());
  return self.mul(keep).mul(scale);
}

double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

}  // namespace

OPERATOR(aclnnInplaceUniform, Out self, double from, double to, int64_t seed, int64_t offset) {
  self->uniform_(from, to, generator(seed, offset));
}
OPERATOR(aclnnInplaceNormal, Out self, float mean, float std, int64_t seed, int64_t offset) {
  self->normal_(mean, std, generator(seed, offset));
}
OPERATOR(aclnnNormalFloatFloat, float mean, float std, int64_t seed, int64_t offset, Out out) {
  out->normal_(mean, std, generator(seed, offset));
}
OPERATOR(aclnnNormalFloatTensor, float mean, In std, int64_t seed, int64_t offset, Out out) {
  write(out, at::normal(mean, std, generator(seed, offset)));
}
OPERATOR(aclnnNormalTensorFloat, In mean, float std, int64_t seed, int64_t offset, Out out) {
  write(out, at::normal(mean, std, generator(seed, offset)));
}
OPERATOR(aclnnNormalTensorTensor, In mean, In std, int64_t seed, int64_t offset, Out out) {
  write(out, at::normal(mean, std, generator(seed, offset)));
}
OPERATOR(aclnnInplaceRandom, Out self, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  self->random_(from, to, generator(seed, offset));
}
OPERATOR(aclnnInplaceRandomWithoutFromTo, Out self, int64_t seed, int64_t offset) {
  self->random_(generator(seed, offset));
}
OPERATOR(aclnnInplaceBernoulli, Out self, Number p, int64_t seed, int64_t offset) {
  self->bernoulli_(p->toDouble(), generator(seed, offset));
}
OPERATOR(aclnnInplaceBernoulliTensor, Out self, In p, int64_t seed, int64_t offset) {
  self->bernoulli_(p, generator(seed, offset));
}
OPERATOR(
    aclnnMultinomial, In self, int64_t samples, bool replacement, int64_t seed, int64_t offset,
    Out out) {
  write(out, at::multinomial(self, samples, replacement, generator(seed, offset)));
}
OPERATOR(aclnnRandperm, int64_t n, int64_t seed, int64_t offset, Out out) {
  out->copy_(at::randperm(n, generator(seed, offset), at::TensorOptions(at::kLong)));
}
OPERATOR(
    aclnnSimThreadExponential, Out self, int64_t count, double lambda, int64_t seed,
    int64_t offset) {
  self->exponential_(lambda, generator(seed, offset));
}

OPERATOR(
    aclnnDropoutGenMaskV2, Ints shape, double p, int64_t seed, int64_t offset, Type type,
    Out mask) {
  draw_mask(mask, c10::multiply_integers(shape), p, generator(seed, offset));
}
OPERATOR(aclnnDropoutDoMask, In self, In mask, double p, Out out) {
  write(out, masked(self, mask, scale_of(p)));
}
OPERATOR(
    aclnnDropoutV3, In self, Optional<In> noise_shape, double p, int64_t seed, int64_t offset,
    Out out, Out mask) {
  draw_mask(mask, self->numel(), p, generator(seed, offset));
  write(out, masked(self, mask, scale_of(p)));
}
OPERATOR(aclnnDropoutV3Grad, In grad, In mask, double scale, Out out) {
  write(out, masked(grad, mask, scale));
}
