// Files that hold each compression function alone: a tier with rows = 0 compresses exactly what it
// is fed, and keeps its graph.
#include <map>

#include "host/base/error.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/compressive/compressive_case.hpp"

namespace mneme::golden {
namespace {

using memory::Projector;

// Shows what the tier projects: the rows that it made, with their graph. (A probe has values only.)
class WatchedLayer : public memory::PlainLayer {
 public:
  using memory::PlainLayer::PlainLayer;
  at::Tensor project(Projector which, const at::Tensor& rows, bool weight_gradient) override {
    if (which == Projector::kKey && rows.requires_grad()) made = rows;
    return memory::PlainLayer::project(which, rows, weight_gradient);
  }
  at::Tensor made;
};

// One function on the file's first `rows` rows.
struct FunctionCase {
  std::string name;      // "conv_n10"
  std::string function;  // "conv"
  int64_t rows;
  bool has_parameters() const { return function == "conv" || function == "dilated"; }
};

struct Lanes {
  int64_t first, count;
};

// One tier, fed once.
class FunctionRun {
 public:
  FunctionRun(const SafetensorsFile& file, at::ScalarType dtype, const FunctionCase& of,
              const std::string& options, Lanes lanes)
      : file_(file),
        dtype_(dtype),
        lanes_(lanes),
        driver_(compressive_memory(str("rows = 0\ncompressed_rows = ", of.rows,
                                       "\nrate = ", whole(file, "rate"), "\nfunction = \"",
                                       of.function, "\"\n", options)),
                backbone(), plugin_loader(), memory::Phase::kTraining, lanes.count),
        layer_({read("q"), read("k"), read("v"), {}, {}, {}}, whole(file, "heads")) {
    for (const memory::TierParameter& parameter : driver_.stack().parameters()) {
      const torch::NoGradGuard no_grad;
      const std::string name = parameter.name.substr(parameter.name.rfind('.') + 1);
      file_layout(name, parameter.tensor).copy_(read(name));
    }
    driver_.stack().weights_changed();
    begin();
    old_ = of_lanes("old_mem").requires_grad_();
    memory::Rows rows;
    rows.count = of.rows;
    rows.hidden = old_.narrow(1, 0, of.rows);
    rows.mass = of_lanes("usage").narrow(1, 0, of.rows).to(at::kFloat);
    memory::LocalAttention local;
    local.q = layer_.memory::PlainLayer::project(Projector::kQuery, of_lanes("h"), false);
    driver_.hooks().absorb_rows(0, 0, rows, of_lanes("h"), local, layer_);
  }

  // The rows that the tier made, in the graph of its parameters and of what it was fed.
  const at::Tensor& made() const { return layer_.made; }
  at::Tensor loss() { return driver_.hooks().total_loss(); }
  at::Tensor probe(const std::string& name) {
    return probes_[str("0.", driver_.stack().identities().at(0).id, ".0.memory.", name)];
  }
  at::Tensor kept() {
    driver_.commit();
    return queue_rows(driver_.state(), 0, "compressed");
  }
  // The rows that the next segment's tokens attend to, in that segment's graph.
  at::Tensor read_next() {
    driver_.commit();
    begin();
    const memory::LayerContext context = driver_.hooks().context(0, of_lanes("h"), layer_);
    if (context.blocks.size() != 1) throw_run("expected one block, got ", context.blocks.size());
    return context.blocks[0].rows.hidden;
  }
  // Gradient of `of` by "old_mem" or a parameter, in the file's layout.
  at::Tensor gradient(const at::Tensor& of, const std::string& by) {
    const at::Tensor leaf = by == "old_mem" ? old_ : tier_parameter(driver_.stack(), 0, by);
    return file_layout(by, torch::autograd::grad({of}, {leaf}, {}, /*retain_graph=*/true)[0]);
  }

 private:
  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(file_, name, dtype_);
  }
  at::Tensor of_lanes(const std::string& name) const {
    return read(name).narrow(0, lanes_.first, lanes_.count).contiguous();
  }
  memory::BackboneInfo backbone() const {
    memory::BackboneInfo info;
    info.layers = 1;
    info.width = file_.at("old_mem").shape.at(2);
    info.heads = whole(file_, "heads");
    info.head_width = file_.at("q").shape.at(0) / info.heads;
    info.compute_dtype = dtype_;
    info.train_segment = info.eval_segment = file_.at("h").shape.at(1);
    info.seed = 5;
    return info;
  }
  void begin() {
    memory::SegmentInput input;
    input.length = file_.at("h").shape.at(1);
    input.wanted_probes = {"memory.compressed", "memory.kept_index"};
    input.probes = &probes_;
    driver_.begin(input);
  }

  const SafetensorsFile& file_;
  at::ScalarType dtype_;
  Lanes lanes_;
  memory::HookDriver driver_;
  WatchedLayer layer_;
  std::map<std::string, at::Tensor> probes_;
  at::Tensor old_;
};

// All that the file says of one function.
class FunctionComparison {
 public:
  FunctionComparison(const SafetensorsFile& file, at::ScalarType dtype, FunctionCase of,
                     Comparison& to)
      : file_(file),
        dtype_(dtype),
        of_(std::move(of)),
        to_(to),
        lanes_{0, file.at("old_mem").shape.at(0)} {}

  void run() {
    attention();
    if (file_.contains(of_.name + ".attn_l2")) check_loss("attn_l2", norm("attention"));
    if (file_.contains(of_.name + ".ae_mse")) autoencoding();
    if (of_.has_parameters()) through_time();
  }

 private:
  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(file_, name, at::kDouble);
  }
  void check(const std::string& what, const std::string& how, const at::Tensor& ours) {
    const std::string name = str(of_.name, ".", what);
    to_.check(name + how, ours, read(name));
  }
  void check_loss(const std::string& what, const at::Tensor& ours) {
    const std::string name = str(of_.name, ".", what);
    to_.check(name, ours, read_loss(file_, name));
  }
  // Every "<function>.<prefix><leaf>" of the file against the gradient of `of`.
  void gradients(const std::string& prefix, const std::string& how, FunctionRun& run,
                 const at::Tensor& of, bool has_rows) {
    const std::string start = str(of_.name, ".", prefix);
    for (const std::string& name : file_.names()) {
      if (!name.starts_with(start)) continue;
      const std::string leaf = name.substr(start.size());
      if (leaf == "old_mem" && !has_rows) continue;
      check(prefix + leaf, how, run.gradient(of, leaf));
    }
  }
  // sum(out * cotangent): what the file's gradients are of.
  at::Tensor pulled(const at::Tensor& out) const {
    return (out * read("cotangent").to(dtype_).narrow(1, 0, out.size(1))).sum();
  }

  void attention() {
    FunctionRun run(file_, dtype_, of_, "loss = \"attention\"\nreport_loss = true\n", lanes_);
    check("out", "", run.made());
    check("out", ", probe", run.probe("compressed"));
    if (run.made().defined()) gradients("grad_", "", run, pulled(run.made()), true);
    check_loss("attn_mse", run.loss().view({1}));
    if (of_.has_parameters()) gradients("attn_mse_grad_", "", run, run.loss(), true);
    if (of_.function == "most_used") check("kept_index", "", run.probe("kept_index"));
    check("out", ", kept", run.kept());
  }

  void autoencoding() {
    FunctionRun run(file_, dtype_, of_, "loss = \"autoencoding\"\n", lanes_);
    check_loss("ae_mse", run.loss().view({1}));
    gradients("ae_mse_grad_", "", run, run.loss(), true);
    if (file_.contains(of_.name + ".ae_l2")) check_loss("ae_l2", norm("autoencoding"));
  }

  // The plugin's is a norm of each lane, the file's one of the whole batch.
  at::Tensor norm(const std::string& loss) {
    at::Tensor squares = torch::zeros({1}, at::kDouble);
    for (int64_t lane = 0; lane < lanes_.count; ++lane) {
      FunctionRun run(file_, dtype_, of_,
                      str("loss = \"", loss, "\"\nloss_norm = \"l2\"\nreport_loss = true\n"),
                      {lane, 1});
      squares += run.loss().detach().to(at::kDouble).square();
    }
    return squares.sqrt();
  }

  // bptt: the same rows, made in the graph of the segment that reads them.
  void through_time() {
    FunctionRun run(file_, dtype_, of_, "loss = \"none\"\nbptt = true\n", lanes_);
    const at::Tensor out = run.read_next();
    check("out", ", bptt", out);
    gradients("grad_", ", bptt", run, pulled(out), false);
  }

  const SafetensorsFile& file_;
  at::ScalarType dtype_;
  FunctionCase of_;
  Comparison& to_;
  Lanes lanes_;
};

// "<function>.out" and "<function>_n<rows>.out" of the file.
std::vector<FunctionCase> cases_of(const SafetensorsFile& file) {
  std::vector<FunctionCase> cases;
  for (const std::string& full : file.names()) {
    if (!full.ends_with(".out")) continue;
    FunctionCase c;
    c.name = c.function = full.substr(0, full.size() - 4);
    c.rows = file.at("old_mem").shape.at(1);
    const std::size_t mark = c.name.rfind("_n");
    if (mark != std::string::npos &&
        c.name.find_first_not_of("0123456789", mark + 2) == std::string::npos) {
      c.function = c.name.substr(0, mark);
      c.rows = std::stoll(c.name.substr(mark + 2));
    }
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

void compare_functions(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                       LeftOut& left_out) {
  for (const FunctionCase& of : cases_of(file)) {
    const std::string skipped = of.function == "dilated" ? left_out_of_dilated(file) : "";
    if (!skipped.empty()) {
      left_out.insert(skipped);
    } else {
      FunctionComparison(file, dtype, of, to).run();
    }
  }
}

}  // namespace mneme::golden
