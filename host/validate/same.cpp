#include "host/validate/same.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/setting.hpp"
#include "mneme/abi.h"

namespace mneme::validate {
namespace {

constexpr std::int64_t kRead = 2 * kSegments;  // an even number: the last one ends a backward pass
constexpr double kNoise = 0.1;

// --- Declarations ---

using Declarations = std::map<std::string, std::string>;  // "slot mean": what it is

std::string dims_text(const std::vector<std::int64_t>& dims) {
  std::vector<std::string> words;
  for (const std::int64_t dim : dims)
    words.push_back(dim == MNEME_LANES ? "lanes" : dim == MNEME_ANY ? "any" : str(dim));
  return str('[', join(words, ", "), ']');
}

const char* scope_text(bool is_model_scope) { return is_model_scope ? "a model" : "a layer"; }

std::string parameter_text(const memory::ParameterDecl& declared) {
  const mneme_parameter_decl& given = declared.given;
  std::string text = str(dims_text(declared.dims), ' ', scope_text(declared.is_model_scope),
                         ", start ", given.init);
  for (const double number : {given.value, given.mean, given.deviation, given.low, given.high,
                              given.gain, given.lr_factor}) {
    text += str(' ', number);
  }
  return str(text, ' ', given.fan_in, declared.group.empty() ? "" : ", group ", declared.group);
}

std::string slot_text(const memory::SlotDecl& declared) {
  return str(tensor::dtype_text(declared.dtype), ' ', dims_text(declared.dims), ' ',
             scope_text(declared.is_model_scope), declared.is_counts ? ", counts" : "",
             declared.is_through ? ", gradient through" : "",
             declared.is_segment_lifetime ? ", of one segment" : "", ", start ", declared.start,
             ' ', declared.start_value);
}

Declarations declarations_of(const Session& session) {
  Declarations out;
  for (const memory::Phase phase : kPhases) {
    const std::string in = str(" (", text_of(phase), ')');
    const memory::Instance& instance = session.stack.tiers().front()->instance(phase);
    for (const auto& one : instance.parameters)
      out[str("parameter ", one.name, in)] = parameter_text(one);
    for (const auto& one : instance.slots) out[str("slot ", one.name, in)] = slot_text(one);
    for (const auto& one : instance.queues) {
      out[str("queue ", one.name, in)] =
          str("rows of kind ", static_cast<int>(one.kind), ' ', scope_text(one.is_model_scope),
              ", attributes ", one.attributes, ", ", one.start_rows, " at the start, capacity ",
              one.capacity);
    }
  }
  for (const memory::TierOutline& tier : session.stack.outlines(1, 1)) {
    out["rows"] = str("absorbed ", tier.training.absorbs);
    out["read"] = str("at ", join(tier.training.reads_at, ", "));
  }
  return out;
}

std::vector<std::string> unlike(const Declarations& first, const Declarations& second) {
  std::vector<std::string> out;
  for (const auto& [name, text] : first) {
    const auto other = second.find(name);
    if (other == second.end()) {
      out.push_back(name + ": only the first has it");
    } else if (other->second != text) {
      out.push_back(str(name, ": first ", text, "; second ", other->second));
    }
  }
  for (const auto& [name, text] : second) {
    if (!first.contains(name)) out.push_back(name + ": only the second has it");
  }
  return out;
}

// --- Numbers ---

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Without the tier's name, in which two plugins may differ.
std::string bare_name(const Session& session, const std::string& name, const std::string& before) {
  const std::string start = before + session.stack.tiers().front()->name() + '.';
  return name.starts_with(start) ? name.substr(start.size()) : name;
}

NamedTensors parameters_of(const Session& session) {
  NamedTensors out;
  for (const memory::TierParameter& p : session.stack.parameters())
    out.emplace_back(bare_name(session, p.name, "memory."), p.tensor);
  for (const backbone::Parameter& p : session.model->parameters())
    out.emplace_back(p.name, p.tensor);
  return out;
}

NamedTensors state_of(const Session& session, const memory::StackState& state) {
  NamedTensors out;
  for (auto& [name, tensor] : state.save().tensors)
    out.emplace_back("state " + bare_name(session, name, ""), tensor);
  return out;
}

NamedTensors gradients_of(const Session& session) {
  NamedTensors out;
  for (const auto& [name, tensor] : parameters_of(session)) {
    const at::Tensor& given = tensor.grad();
    out.emplace_back("gradient of " + name, given.defined() ? given : at::zeros_like(tensor));
  }
  return out;
}

void share_weights(Session& first, Session& second, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  std::map<std::string, at::Tensor> values;
  for (const auto& [name, tensor] : parameters_of(first)) {
    if (tensor.is_floating_point())
      tensor.add_(at::randn(tensor.sizes(), generator, tensor.options()), kNoise);
    values[name] = tensor;
  }
  for (const auto& [name, tensor] : parameters_of(second)) tensor.copy_(values.at(name));
  first.stack.weights_changed();
  second.stack.weights_changed();
}

double largest_number(const at::Tensor& t) {
  return t.numel() == 0 ? 0.0 : t.detach().to(at::kDouble).abs().max().item<double>();
}

// What has been compared so far.
class Ledger {
 public:
  explicit Ledger(double tolerance) : tolerance_(tolerance) {}

  void enter(memory::Phase phase, std::int64_t segment) {
    phase_ = text_of(phase);
    segment_ = segment;
  }

  void add(const std::string& kind, const NamedTensors& first, const NamedTensors& second) {
    const std::map<std::string, at::Tensor> others(second.begin(), second.end());
    std::size_t found = 0;
    for (const auto& [name, tensor] : first) {
      const auto other = others.find(name);
      if (other == others.end()) {
        differs({.what = name, .problem = "only the first has it"});
        continue;
      }
      ++found;
      add(kind, name, tensor, other->second);
    }
    if (found == others.size()) return;
    for (const auto& [name, tensor] : second) {
      const auto is_it = [&label = name](const auto& one) { return one.first == label; };
      if (std::ranges::none_of(first, is_it))
        differs({.what = name, .problem = "only the second has it"});
    }
  }

  Sameness result;

 private:
  static std::string form(const at::Tensor& t) {
    return str(tensor::dtype_text(t.scalar_type()), ' ', list_text(t.sizes().vec()));
  }

  void add(const std::string& kind, const std::string& name, const at::Tensor& a,
           const at::Tensor& b) {
    if (form(a) != form(b)) {
      differs({.what = name, .problem = str("first ", form(a), "; second ", form(b))});
      return;
    }
    const double absolute = largest_difference(b, a);
    const double scale = largest_number(a);
    const double relative = absolute == 0.0 ? 0.0 : absolute / scale;
    SameKind& row = kind_of(kind);
    row.numbers += a.numel();
    row.absolute = std::max(row.absolute, absolute);
    row.relative = std::max(row.relative, relative);
    // Not "above": a comparison with NaN is false.
    if (!(absolute <= tolerance_ * std::max(1.0, scale)))
      differs({.what = name, .absolute = absolute, .relative = relative});
  }

  SameKind& kind_of(const std::string& kind) {
    for (SameKind& row : result.kinds) {
      if (row.kind == kind) return row;
    }
    return result.kinds.emplace_back(SameKind{.kind = kind});
  }

  void differs(FirstDifference found) {
    if (!result.first.empty()) return;
    found.phase = phase_;
    found.segment = segment_;
    result.first.push_back(std::move(found));
  }

  double tolerance_;
  std::string phase_;
  std::int64_t segment_ = 0;
};

// One of the two, reading its way through the segments.
struct Reader {
  Session& session;
  memory::StackState state;
  at::Tensor loss = {};  // since the last backward pass

  NamedTensors read(const at::Tensor& ids, const SegmentHow& how, NamedTensors& aux) {
    const SegmentResult out = session.run(state, ids, how);
    loss = loss.defined() ? loss + out.loss : out.loss;
    if (out.aux.defined()) aux = {{"auxiliary losses", out.aux}};
    return {{"losses", out.nll}};
  }

  NamedTensors backward() {
    for (const auto& [name, tensor] : parameters_of(session))
      at::Tensor(tensor).mutable_grad() = at::Tensor();
    loss.backward();
    loss = at::Tensor();
    return gradients_of(session);
  }
};

void compare_phase(Session& first, Session& second, const Subject& subject, memory::Phase phase,
                   Ledger& comparison) {
  const bool is_training = phase == memory::Phase::kTraining;
  const at::AutoGradMode grad(is_training);
  const std::int64_t length = segment_length(first);
  const at::Tensor ids = ids_of(subject, first, kRead);
  Reader a{first, first.fresh(kLanes, phase)};
  Reader b{second, second.fresh(kLanes, phase)};
  for (std::int64_t s = 0; s < kRead; ++s) {
    comparison.enter(phase, s);
    for (Reader* const one : {&a, &b}) {
      if (s == 2) one->state.reset({0, 1, 0});
      if (s == 5) one->state.reset_all();
    }
    SegmentHow how;
    if (s % 3 == 1 && length > 1) how.valid_count = {length - 1, length, 1};
    const at::Tensor segment = segment_of(ids, length, s);
    NamedTensors aux_a;
    NamedTensors aux_b;
    const NamedTensors losses = a.read(segment, how, aux_a);
    comparison.add("losses", losses, b.read(segment, how, aux_b));
    comparison.add("auxiliary losses", aux_a, aux_b);
    comparison.add("states", state_of(first, a.state), state_of(second, b.state));
    if (is_training && a.state.is_graph_boundary() && b.state.is_graph_boundary()) {
      const NamedTensors gradients = a.backward();
      comparison.add("gradients", gradients, b.backward());
    }
  }
}

}  // namespace

Sameness compare_plugins(const Subject& first, const Subject& second, double tolerance) {
  Setting setting = small_setting(first);
  setting.setup.bptt_segments = 2;
  const auto a = open(first, setting);
  const auto b = open(second, setting);
  Ledger comparison(tolerance);
  comparison.result.declarations = unlike(declarations_of(*a), declarations_of(*b));
  if (!comparison.result.declarations.empty()) return comparison.result;
  share_weights(*a, *b, first.seed);
  for (const memory::Phase phase : kPhases) compare_phase(*a, *b, first, phase, comparison);
  return comparison.result;
}

}  // namespace mneme::validate
