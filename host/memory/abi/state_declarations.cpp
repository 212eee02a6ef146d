// The functions of group mneme.state/1 that `create` calls: they check and keep the declarations of
// parameters, slots and queues. Those that hooks call are in abi/state_group.cpp.
#include "host/memory/abi/state_declarations.hpp"

#include <algorithm>
#include <cctype>

#include "host/base/error.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/ops/op_table.hpp"

namespace mneme::memory {
namespace {

void check_name(const char* name, const char* what, const Instance& instance) {
  if (name == nullptr || *name == '\0')
    throw CallError(MNEME_E_INVALID_ARGUMENT, str("a ", what, " needs a name"));
  for (const char* c = name; *c != '\0'; ++c) {
    if (!(std::islower(static_cast<unsigned char>(*c)) ||
          std::isdigit(static_cast<unsigned char>(*c)) || *c == '_')) {
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str(what, " \"", name, "\": a name holds a-z, 0-9 and _ only"));
    }
  }
  const auto taken = [&](const auto& list) {
    for (const auto& entry : list) {
      if (entry.name == name)
        throw CallError(MNEME_E_INVALID_ARGUMENT,
                        str(what, " \"", name, "\": the name is already taken"));
    }
  };
  taken(instance.parameters);
  taken(instance.slots);
  taken(instance.queues);
  if (std::string_view(name) == "waiting")
    throw CallError(MNEME_E_INVALID_ARGUMENT, "the name \"waiting\" belongs to the host");
}

void check_rank(std::uint32_t rank, const char* name) {
  if (rank > MNEME_MAX_RANK)
    throw CallError(MNEME_E_SHAPE,
                    str("\"", name, "\": rank: expected at most ", MNEME_MAX_RANK, ", got ", rank));
}

void check_slot(const mneme_slot_decl& in) {
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    const bool is_lanes = i == 0 && in.dims[i] == MNEME_LANES;
    if (!is_lanes && in.dims[i] != MNEME_ANY && in.dims[i] < 1) {
      throw CallError(
          MNEME_E_SHAPE,
          str("slot \"", in.name, "\": dims[", i,
              "]: expected at least 1, MNEME_ANY, or MNEME_LANES in front, got ", in.dims[i]));
    }
  }
}

void check_counts(const mneme_slot_decl& in) {
  const bool has_any = std::find(in.dims, in.dims + in.rank, MNEME_ANY) != in.dims + in.rank;
  if ((in.dtype != 0 && in.dtype != MNEME_I64) || in.gradient != MNEME_GRADIENT_STOP || has_any ||
      in.start == MNEME_START_PARAMETER) {
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("slot \"", in.name,
                        "\": counts are of dtype 0 or MNEME_I64 and of gradient STOP, have no "
                        "MNEME_ANY extent and start with zeros or a constant"));
  }
}

// The place of a slot's start parameter, which has the slot's scope and its shape without lanes.
std::size_t start_parameter(const SlotDecl& decl, mneme_parameter id, const Instance& instance) {
  if (!instance.ids.has(Declared::kParameter, id, instance.parameters.size()))
    throw CallError(
        MNEME_E_INVALID_ARGUMENT,
        str("slot \"", decl.name, "\": start_parameter is no parameter of this instance"));
  const std::size_t place =
      instance.ids.place(Declared::kParameter, id, instance.parameters.size());
  if (std::find(decl.dims.begin(), decl.dims.end(), MNEME_ANY) != decl.dims.end())
    throw CallError(MNEME_E_SHAPE, str("slot \"", decl.name,
                                       "\": a start parameter and MNEME_ANY do not go together"));
  const ParameterDecl& parameter = instance.parameters[place];
  const std::vector<std::int64_t> expected(decl.dims.begin() + (decl.has_lanes() ? 1 : 0),
                                           decl.dims.end());
  if (parameter.dims != expected || parameter.is_model_scope != decl.is_model_scope) {
    throw CallError(MNEME_E_SHAPE, str("slot \"", decl.name, "\": its start parameter \"",
                                       parameter.name, "\" must have the same scope and shape ",
                                       list_text(expected), ", got ", list_text(parameter.dims)));
  }
  return place;
}

// What the three declarations have in common; fill(in, instance, decl) checks and copies the rest.
template <typename Given, typename Handle, typename Decl, typename Fill>
mneme_status declare(mneme_setup* opaque, const Given* given, Handle* out, mneme_error* error,
                     Declared kind, const std::string& what, std::vector<Decl> Instance::*list,
                     const Fill& fill) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(out, "out");
    const auto in = normalised(given, ("mneme_" + what + "_decl").c_str());
    Instance& instance = *setup->instance;
    check_name(in.name, what.c_str(), instance);
    Decl decl;
    decl.name = in.name;
    decl.is_model_scope = in.scope == MNEME_SCOPE_MODEL;
    fill(in, instance, decl);
    *out = instance.ids.id(kind, (instance.*list).size());
    (instance.*list).push_back(std::move(decl));
  });
}

}  // namespace

mneme_status add_parameter(mneme_setup* opaque, const mneme_parameter_decl* given,
                           mneme_parameter* out, mneme_error* error) {
  const auto fill = [](const mneme_parameter_decl& in, const Instance&, ParameterDecl& decl) {
    check_rank(in.rank, in.name);
    for (std::uint32_t i = 0; i < in.rank; ++i) {
      if (in.dims[i] < 1)
        throw CallError(MNEME_E_SHAPE, str("parameter \"", in.name, "\": dims[", i,
                                           "]: expected at least 1, got ", in.dims[i]));
    }
    if (in.fan_in < 0)
      throw CallError(
          MNEME_E_INVALID_ARGUMENT,
          str("parameter \"", in.name, "\": fan_in: expected at least 0, got ", in.fan_in));
    if (in.lr_factor < 0)
      throw CallError(
          MNEME_E_INVALID_ARGUMENT,
          str("parameter \"", in.name, "\": lr_factor: expected at least 0, got ", in.lr_factor));
    if (in.group != nullptr && std::string_view(in.group) != "none")
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("parameter \"", in.name, "\": group: expected NULL or \"none\", got \"",
                          in.group, '"'));
    decl.dims.assign(in.dims, in.dims + in.rank);
    decl.group = in.group == nullptr ? "" : in.group;
    decl.given = in;
    decl.given.name = decl.given.group = nullptr;
  };
  return declare(opaque, given, out, error, Declared::kParameter, "parameter",
                 &Instance::parameters, fill);
}

mneme_status add_slot(mneme_setup* opaque, const mneme_slot_decl* given, mneme_slot* out,
                      mneme_error* error) {
  const auto fill = [](const mneme_slot_decl& in, const Instance& instance, SlotDecl& decl) {
    check_rank(in.rank, in.name);
    check_slot(in);
    decl.is_counts = (in.flags & MNEME_SLOT_COUNTS) != 0;
    if (decl.is_counts) check_counts(in);
    const std::uint32_t absent = decl.is_counts ? MNEME_I64 : MNEME_F32;
    decl.dtype = ops::scalar_type_of(in.dtype == 0 ? absent : in.dtype);
    decl.is_through = in.gradient == MNEME_GRADIENT_THROUGH;
    decl.is_segment_lifetime = in.lifetime == MNEME_LIFETIME_SEGMENT;
    decl.dims.assign(in.dims, in.dims + in.rank);
    decl.revision = in.revision;
    decl.start = in.start;
    decl.start_value = in.start_value;
    if (decl.start == MNEME_START_PARAMETER)
      decl.start_parameter = start_parameter(decl, in.start_parameter, instance);
  };
  return declare(opaque, given, out, error, Declared::kSlot, "slot", &Instance::slots, fill);
}

mneme_status add_queue(mneme_setup* opaque, const mneme_queue_decl* given, mneme_queue* out,
                       mneme_error* error) {
  const auto fill = [](const mneme_queue_decl& in, const Instance&, QueueDecl& decl) {
    if (in.start_rows < 0 || in.capacity < -1)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("queue \"", in.name,
                          "\": start_rows must be at least 0, and capacity at least -1 (no rows)"));
    decl.kind = static_cast<RowsKind>(in.kind);
    decl.attributes = in.attributes;
    decl.revision = in.revision;
    decl.start_rows = in.start_rows;
    decl.capacity = in.capacity;
  };
  return declare(opaque, given, out, error, Declared::kQueue, "queue", &Instance::queues, fill);
}

}  // namespace mneme::memory
