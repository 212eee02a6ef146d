#include "tests/golden/compressive/compressive_peer_case.hpp"

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {

at::Tensor PeerCase::read(const std::string& name) const {
  return weights::read_tensor(file, name, at::kDouble);
}

PeerCase PeerCase::of(const SafetensorsFile& file) {
  PeerCase c(file);
  c.is_lucidrains = compressive_form(file) == CompressiveForm::kLucidrains;
  c.lanes = whole(file, "batch");
  c.segment = whole(file, "seq_len");
  c.segments = whole(file, "segments");
  c.heads = whole(file, "heads");
  c.memory_rows = whole(file, "mem_len");
  c.function = file.metadata_at("compression");
  c.is_lucidrains ? c.read_lucidrains() : c.read_labml();
  return c;
}

void PeerCase::read_lucidrains() {
  width = whole(file, "dim");
  compressed_rows = whole(file, "cmem_len");
  rate = whole(file, "cmem_ratio");
  std::vector<int64_t> served;
  if (file.metadata().contains("memory_layers")) {
    served = setting(file, "memory_layers").get<std::vector<int64_t>>();
  } else {
    for (int64_t l = 1; l <= whole(file, "depth"); ++l) served.push_back(l);
  }
  for (const int64_t l : served) {
    Layer layer;
    layer.name = str("attn_layers.", l - 1, ".fn.fn");
    const at::Tensor kv = read(str("param.", layer.name, ".to_kv.weight"));
    layer.attention.query = read(str("param.", layer.name, ".to_q.weight"));
    layer.attention.key = kv.chunk(2, 0)[0];
    layer.attention.value = kv.chunk(2, 0)[1];
    layer.convolution = layer.name + ".compress_mem_fn.conv";
    layers.push_back(layer);
  }
  loss_share = std::stod(text_or(file, "reconstruction_loss_weight", "1")) /
               static_cast<double>(layers.size());
  read_from = text_or(file, "enhanced_recurrence", "false") == "true" ? 1 : 0;
}

void PeerCase::read_labml() {
  width = whole(file, "d_model");
  compressed_rows = whole(file, "c_mem_len");
  rate = whole(file, "rate");
  for (int64_t l = 0; l < whole(file, "layers"); ++l) {
    Layer layer;
    layer.name = str("transformer.layers.", l);
    const std::string attention = str("param.", layer.name, ".self_attn.");
    layer.attention.query = read(attention + "query.linear.weight");
    layer.attention.key = read(attention + "key.linear.weight");
    layer.attention.value = read(attention + "value.linear.weight");
    layer.attention.norm = read(str("param.", layer.name, ".norm_self_attn.weight"));
    layer.attention.norm_bias = read(str("param.", layer.name, ".norm_self_attn.bias"));
    layer.convolution = layer.name + ".compress.conv";
    layers.push_back(layer);
  }
}

config::MemoryConfig PeerCase::memory() const {
  return compressive_memory(str("rows = ", memory_rows, "\ncompressed_rows = ", compressed_rows,
                                "\nrate = ", rate, "\nfunction = \"", function,
                                "\"\nloss = \"attention\"\nreport_loss = true\nstore = \"",
                                is_lucidrains ? "normed" : "input", "\"\nremainder = \"",
                                is_lucidrains ? "pad" : "ceil", "\"\n"));
}

memory::BackboneInfo PeerCase::backbone(at::ScalarType dtype) const {
  memory::BackboneInfo info;
  info.layers = static_cast<int64_t>(layers.size());
  info.width = width;
  info.heads = heads;
  info.head_width = layers.at(0).attention.query.size(0) / heads;
  info.is_pre_norm = true;
  info.compute_dtype = dtype;
  info.train_segment = info.eval_segment = segment;
  info.seed = 5;
  return info;
}

at::Tensor PeerCase::rows(const std::string& what, int64_t s, int64_t layer) const {
  const std::string name = str("seg", s, ".", what);
  if (s < 0 || !file.contains(name)) return torch::zeros({lanes, 0, width}, at::kDouble);
  const at::Tensor of_layer = read(name)[layer];
  return (is_lucidrains ? of_layer : of_layer.transpose(0, 1)).contiguous();
}

at::Tensor PeerCase::before(const std::string& what, int64_t s, int64_t layer) const {
  return rows(what, s - 1, (layer + read_from) % static_cast<int64_t>(layers.size()));
}

at::Tensor PeerCase::fed(int64_t s, int64_t layer) const {
  // Rows of the segment that were evicted at once are among `compressed_rows`.
  const at::Tensor all = at::cat({rows("compressed_rows", s, layer), rows("mem", s, layer)}, 1);
  if (all.size(1) < segment)
    throw_run("segment ", s, ": the file holds ", all.size(1), " of its ", segment, " rows");
  return all.narrow(1, all.size(1) - segment, segment).contiguous();
}

int64_t PeerCase::leaving(int64_t held) const {
  const int64_t over = std::max<int64_t>(0, held - memory_rows);
  return is_lucidrains ? over : (over + rate - 1) / rate * rate;
}

std::string PeerCase::rows_differ(int64_t evicted) const {
  const int64_t theirs = evicted % rate, ours = (rate - theirs) % rate;
  if (!is_lucidrains || theirs == ours) return "";
  return str("compressed rows and their loss: skipped by setting cmem_ratio = ", rate, ": before ",
             evicted, " evicted rows the peer puts ", theirs, " zeros, which is not ", ours,
             ", and drops the newest row");
}

std::string PeerCase::loss_differs() const {
  if (!is_lucidrains || memory_rows == segment) return "";
  return str("the loss: skipped by setting mem_len = ", memory_rows,
             ": its target attends to the whole memory, and the ", segment,
             " rows that a segment evicts are only a part of it");
}

}  // namespace mneme::golden
