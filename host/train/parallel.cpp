#include "host/train/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
namespace {

constexpr const char* kLanesKey = "train.lanes";

std::vector<optim::TrainableParameter> trained(const run::Runtime& runtime) {
  std::vector<optim::TrainableParameter> out = runtime.parameters();
  std::erase_if(out, [](const optim::TrainableParameter& one) { return one.is_frozen; });
  return out;
}

GradientSumsOptions sums_options(const config::TrainConfig& train) {
  return {.bucket_bytes = train.bucket_mb << 20,
          .in_bf16 = train.gradients == config::GradientPrecision::kBf16,
          .is_sharded = train.shard_optimizer};
}

// What all ranks must have alike, by the name that a message gives it.
using Traits = std::map<std::string, std::string>;

Traits traits_of(const run::Runtime& runtime) {
  const Json info = run::describe_run(runtime);
  Traits out;
  for (const char* const key : {"mneme", "commit", "dirty", "torch", "data"}) {
    if (info.contains(key)) out[key] = info.at(key).dump();
  }
  out["device"] = runtime.device().is_cuda() ? "cuda" : "cpu";
  out["precision"] = info.value("precision", std::string());
  for (const memory::TierIdentity& tier : runtime.stack().identities())
    out["plugin file of tier " + tier.id] = tier.sha256;
  out["experiment"] = config::to_toml(runtime.experiment());
  return out;
}

// The first line in which two texts differ, of the second.
std::string first_difference(const std::string& ours, const std::string& theirs) {
  const auto [a, b] = std::ranges::mismatch(ours, theirs);
  static_cast<void>(a);
  const auto place = static_cast<std::size_t>(b - theirs.begin());
  const std::size_t begin = theirs.rfind('\n', place == 0 ? 0 : place - 1);
  const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
  constexpr std::size_t kShown = 120;
  return theirs.substr(from, std::min(theirs.find('\n', from), from + kShown) - from);
}

// One tensor of a state, for the way to another rank.
Json header_of(const std::string& name, const at::Tensor& tensor) {
  return {{"name", name},
          {"dtype", dtype_name(tensor::to_dtype(tensor.scalar_type()))},
          {"shape", tensor.sizes().vec()}};
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

at::Tensor tensor_of(const Json& header, const std::string& bytes) {
  TensorView view;
  if (!parse_dtype(header.at("dtype").get<std::string>(), view.dtype))
    throw std::logic_error("a rank sent a tensor of an unknown type");
  view.shape = header.at("shape").get<std::vector<std::int64_t>>();
  view.data = reinterpret_cast<const std::byte*>(bytes.data());
  view.bytes = bytes.size();
  return tensor::to_tensor(view);
}

}  // namespace

config::Experiment with_own_lanes(config::Experiment experiment, const RankOptions& ranks) {
  if (ranks.is_parallel()) {
    experiment.train.lanes = ranks::lanes_of(*ranks.ranks, experiment.train.lanes, kLanesKey).count;
  }
  return experiment;
}

void check_equal_ranks(ranks::Communicator& ranks, const run::Runtime& runtime) {
  const Json own = traits_of(runtime);
  const std::vector<std::string> all = ranks.all_gather(json_text(own), "comparison of the ranks");
  const auto first = Json::parse(all.front()).get<Traits>();
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const auto theirs = Json::parse(all[static_cast<std::size_t>(rank)]).get<Traits>();
    for (const auto& [name, value] : first) {
      const auto found = theirs.find(name);
      const std::string got = found == theirs.end() ? std::string() : found->second;
      if (got == value) continue;
      throw_usage({.where = name_of(ranks, rank),
                   .failed = str("its ", name, " is another one than that of rank 0 (host ",
                                 ranks.host(0), ")"),
                   .expected = first_difference(got, value),
                   .got = got.empty() ? std::string("nothing") : first_difference(value, got),
                   .hint = "start all ranks with the same program, plugins, experiment and data"});
    }
  }
}

void check_slots(const memory::Stack& stack) {
  const std::vector<std::string> slots = stack.slots_without_lanes();
  if (slots.empty()) return;
  throw_usage({.where = "memory slot " + slots.front(),
               .failed = "it belongs to the run and not to lanes: every rank would compute a value "
                         "of its own from its lanes",
               .expected = "slots whose first dimension is the lanes",
               .got = str(slots.size(), " slots of the run"),
               .hint = "train with this memory in one process"});
}

Parallel::Parallel(const RankOptions& options, run::Runtime& runtime)
    : options_(options),
      lanes_(ranks::lanes_of(*options.ranks, runtime.experiment().train.lanes, kLanesKey)),
      gradients_(*options.ranks, trained(runtime), sums_options(runtime.experiment().train)) {
  check_slots(runtime.stack());
  check_equal_ranks(ranks(), runtime);
  runtime.model().set_lanes({lanes_.first, lanes_.count, runtime.experiment().train.lanes});
}

data::TokenSegment Parallel::own(const data::TokenSegment& whole) const {
  return whole.lanes_of(lanes_.first, lanes_.count);
}

memory::StackState Parallel::new_state(const memory::Stack& stack) const {
  memory::StackState state = stack.new_state(memory::Phase::kTraining, lanes_.count);
  std::vector<std::uint64_t> streams(static_cast<std::size_t>(lanes_.count));
  std::iota(streams.begin(), streams.end(), static_cast<std::uint64_t>(lanes_.first));
  state.set_streams(std::move(streams));
  return state;
}

void Parallel::keep_own(memory::StackState& state) const {
  std::vector<std::int64_t> lanes(static_cast<std::size_t>(lanes_.count));
  std::iota(lanes.begin(), lanes.end(), lanes_.first);
  state.select(lanes);
}

memory::NamedState Parallel::gather(const memory::NamedState& own) const {
  const ranks::Purpose purpose = "memory state for a checkpoint";
  Json header = {{"metadata", own.metadata}, {"tensors", Json::array()}};
  for (const auto& [name, tensor] : own.tensors)
    header["tensors"].push_back(header_of(name, tensor));
  const std::vector<std::string> headers = ranks().all_gather(json_text(header), purpose);
  std::vector<memory::NamedState> parts(headers.size());
  std::vector<Json> described;
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    const Json& one = described.emplace_back(parse_json_or_throw(headers[rank]));
    parts[rank].metadata = one.at("metadata").get<std::map<std::string, std::string>>();
    most = std::max(most, one.at("tensors").size());
  }
  // Tensor by tensor, so that rank 0 holds little more than the state.
  for (std::size_t i = 0; i < most; ++i) {
    const std::string mine =
        i < own.tensors.size() ? bytes_of(own.tensors[i].second) : std::string();
    const std::vector<std::string> all = ranks().gather(mine, purpose);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const Json& tensors = described[rank].at("tensors");
      if (i >= tensors.size()) continue;
      parts[rank].tensors.emplace_back(tensors[i].at("name").get<std::string>(),
                                       tensor_of(tensors[i], all[rank]));
    }
  }
  if (!ranks().is_first()) return {};
  return memory::StackState::merge(parts);
}

std::vector<optim::TrainableParameter> Parallel::updated() const {
  if (!is_sharded()) return gradients_.parameters();
  std::vector<optim::TrainableParameter> out;
  for (const GradientSums::Shard& shard : gradients_.shards()) out.push_back(shard.part);
  return out;
}

std::vector<optim::Optimizer::Moments> Parallel::gather(optim::Optimizer& optimizer) {
  if (!is_sharded()) return optimizer.moments();
  std::vector<at::Tensor> means, squares;
  std::map<std::string, double> counts;  // by parameter
  for (const optim::Optimizer::Moments& own : optimizer.moments()) {
    means.push_back(own.mean);
    squares.push_back(own.square);
    counts[own.name] = own.count.item<double>();
  }
  means = gradients_.gather(means);
  squares = gradients_.gather(squares);
  for (const std::string& text : ranks().all_gather(json_text(counts), purpose_)) {
    for (const auto& [name, count] : parse_json_or_throw(text).get<std::map<std::string, double>>())
      counts[name] = count;  // ranks that share a parameter have counted alike
  }
  std::vector<optim::Optimizer::Moments> out;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::string& name = gradients_.parameters()[i].name;
    out.push_back({name, means[i], squares[i], torch::full({}, counts.at(name), at::kFloat)});
  }
  return out;
}

std::vector<optim::Optimizer::Moments> Parallel::whole_moments(optim::Optimizer& optimizer) const {
  if (!is_sharded()) return optimizer.moments();
  std::vector<optim::Optimizer::Moments> out;
  for (const optim::TrainableParameter& one : gradients_.parameters()) {
    const at::TensorOptions type = one.tensor.options().device(at::kCPU).requires_grad(false);
    out.push_back({one.name, torch::zeros(one.tensor.sizes(), type),
                   torch::zeros(one.tensor.sizes(), type), torch::zeros({}, at::kFloat)});
  }
  return out;
}

void Parallel::take(const std::vector<optim::Optimizer::Moments>& whole,
                    optim::Optimizer& optimizer) const {
  if (!is_sharded()) return;  // they are the optimiser's own
  for (std::size_t i = 0; i < gradients_.shards().size(); ++i) {
    const GradientSums::Shard& shard = gradients_.shards()[i];
    optim::Optimizer::Moments& own = optimizer.moments()[i];
    const optim::Optimizer::Moments& from = whole[shard.parameter];
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.view({-1}).narrow(0, shard.offset, own.mean.numel());
    };
    own.mean.copy_(part(from.mean));
    own.square.copy_(part(from.square));
    own.count.copy_(from.count);
  }
}

std::vector<std::string> Parallel::untrained(const optim::Optimizer& optimizer) const {
  if (!is_sharded()) return optimizer.untrained();
  std::set<std::string> names;
  for (const std::string& text : ranks().all_gather(json_text(optimizer.untrained()), purpose_)) {
    for (const Json& name : parse_json_or_throw(text)) names.insert(name.get<std::string>());
  }
  return {names.begin(), names.end()};
}

double Parallel::norm_of_all(double own) {
  if (!is_sharded()) return own;
  std::vector<double> square = {own * own};
  ranks::sum(ranks(), square, purpose_);
  return std::sqrt(square.front());
}

void Parallel::take_first_weights(run::Runtime& runtime) {
  const at::NoGradGuard no_grad;
  for (const optim::TrainableParameter& one : runtime.parameters()) {
    at::Tensor here = one.tensor.detach().to(at::kCPU).contiguous();
    ranks().broadcast(0, here.mutable_data_ptr(), here.nbytes(), "first weights");
    at::Tensor target = one.tensor.detach();
    target.copy_(here);
  }
  runtime.weights_changed();
}

void Parallel::check_same_checkpoint(const run::Checkpoint& checkpoint) const {
  const auto& metadata = checkpoint.file().metadata();
  std::string own = str("step ", checkpoint.progress().step);
  const auto checksum = metadata.find("checksum");  // files of older versions have none
  if (checksum != metadata.end()) own += str(", checksum ", checksum->second.substr(0, 16));
  const std::vector<std::string> all = ranks().all_gather(own, "checkpoint that is resumed");
  for (int rank = 1; rank < ranks().size(); ++rank) {
    const std::string& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs == all.front()) continue;
    throw_usage({.where = name_of(ranks(), rank),
                 .failed = "it has read another checkpoint than rank 0",
                 .expected = all.front(),
                 .got = theirs,
                 .hint = "put the run's folder on a file system that all hosts share"});
  }
}

void Parallel::begin_step(std::int64_t step) { purpose_ = str("step ", step); }

int Parallel::finish_backward(std::vector<double>& numbers) {
  const int signal = options_.stop_signal ? options_.stop_signal() : 0;
  numbers.push_back(signal == 0 ? 0.0 : 1.0);
  numbers.push_back(signal);
  gradients_.finish(numbers);
  const double sum = numbers.back(), asked = numbers[numbers.size() - 2];
  numbers.resize(numbers.size() - 2);
  // Ranks that got different signals stop by one of them.
  return asked == 0.0 ? 0 : signal != 0 ? signal : static_cast<int>(std::lround(sum / asked));
}

memory::SumOverProcesses Parallel::sum_over_processes() {
  return [this](const std::map<std::string, double>& own) {
    return ranks::sum_by_name(ranks(), own, purpose_ + ", weights of losses");
  };
}

std::string Parallel::first_text(const std::string& own) const {
  const std::vector<std::string> all = ranks().all_gather(own, purpose_ + ", search for a fault");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      return str(all[rank], " (", name_of(ranks(), static_cast<int>(rank)), ")");
  }
  return "";
}

}  // namespace mneme::train
