#include "host/run/fingerprint.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {

Fingerprint fingerprint(const backbone::Model& model) {
  Fingerprint out;
  for (const backbone::Parameter& parameter : model.parameters()) {
    const at::Tensor tensor = parameter.tensor.detach().cpu().contiguous();
    Sha256 sha;
    sha.update(str(c10::toString(tensor.scalar_type()), ' ', list_text(tensor.sizes().vec()), ' '));
    sha.update(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
    out.emplace_back(parameter.name, sha.hex());
  }
  return out;
}

Fingerprint outside_attention(const Fingerprint& fingerprint) {
  Fingerprint out;
  std::ranges::copy_if(fingerprint, std::back_inserter(out), [](const auto& parameter) {
    return parameter.first.find("attention.") == std::string::npos;
  });
  return out;
}

std::string digest(const Fingerprint& fingerprint) {
  Sha256 sha;
  for (const auto& [name, hex] : fingerprint) sha.update(str(name, ' ', hex, '\n'));
  return sha.hex();
}

void check_equal(const Fingerprint& first, const std::string& first_arm, const Fingerprint& other,
                 const std::string& other_arm) {
  if (first == other) return;
  const auto [a, b] = std::ranges::mismatch(first, other);
  const std::string a_text = a == first.end() ? "no parameter" : str(a->first, ' ', a->second);
  const std::string b_text = b == other.end() ? "no parameter" : str(b->first, ' ', b->second);
  throw_run({.where = str(first_arm, " and ", other_arm),
             .failed = "their backbones do not start from the same weights, so that the memories "
                       "cannot be compared",
             .expected = a_text,
             .got = b_text,
             .hint = "give the arms the same [model] and train.seed"});
}

}  // namespace mneme::run
