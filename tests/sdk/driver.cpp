#include "tests/sdk/driver.hpp"

namespace mneme::test {

mneme_model_info small_model() {
  static const int64_t served[] = {0, 2};
  mneme_model_info info = MNEME_INIT(mneme_model_info);
  info.flags = MNEME_MODEL_EVALUATION;
  info.width = 4;
  info.heads = 2;
  info.head_width = 2;
  info.layers = 3;
  info.served = served;
  info.served_count = 2;
  info.segment = 5;
  info.bptt_segments = 1;
  info.position = "relative";
  info.compute_dtype = MNEME_F32;
  return info;
}

Driver::Driver(const mneme_plugin& table) : table_(table) {
  FakeHost& host = FakeHost::get();
  const mneme_host_offer offer = host.offer();
  if (table_.init != nullptr) {
    EXPECT_EQ(table_.init(offer.host, offer.get_group, &error), MNEME_OK);
  }
}

Driver::~Driver() {
  if (instance_ != nullptr) table_.destroy(instance_);
}

mneme_status Driver::create() {
  const mneme_model_info info = small_model();
  return table_.create(FakeHost::get().offer().host, FakeHost::get().setup(), &info, &traits,
                       &instance_, &error);
}

void Driver::create_or_fail() {
  ASSERT_EQ(create(), MNEME_OK) << error.message;
  FakeHost::get().log.clear();
}

mneme_status Driver::absorb(int64_t rows, bool is_masked) {
  FakeHost& host = FakeHost::get();
  mneme_rows given = MNEME_INIT(mneme_rows);
  given.rows = rows;
  given.hidden = host.borrowed({2, rows, 4});
  if (is_masked) given.valid = host.borrowed({2, rows}, MNEME_BOOL);
  mneme_absorb in = MNEME_INIT(mneme_absorb);
  in.segment = &segment();
  in.layer = 2;
  in.rows = &given;
  in.x = host.borrowed({2, 5, 4});
  in.mass_rows = 9;
  return table_.absorb(instance_, host.ctx(), &in, &error);
}

mneme_status Driver::read(mneme_read& out) {
  FakeHost& host = FakeHost::get();
  mneme_queries in = MNEME_INIT(mneme_queries);
  in.segment = &segment();
  in.layer = 2;
  in.site = MNEME_SITE_OUT;
  in.q = host.borrowed({2, 5, 2, 2});
  return table_.read(instance_, host.ctx(), &in, &out, &error);
}

mneme_status Driver::context() {
  mneme_context in = MNEME_INIT(mneme_context);
  in.segment = &segment();
  in.layer = 1;
  in.x = FakeHost::get().borrowed({2, 5, 4});
  return table_.context(instance_, FakeHost::get().ctx(), &in, &error);
}

mneme_status Driver::begin(mneme_riders& out) {
  return table_.begin(instance_, FakeHost::get().ctx(), &segment(), &out, &error);
}

mneme_status Driver::ride(mneme_tensor& out) {
  mneme_ride in = MNEME_INIT(mneme_ride);
  in.segment = &segment();
  in.riders = 2;
  in.q_riders = FakeHost::get().borrowed({2, 2, 2, 2});
  in.k = FakeHost::get().borrowed({2, 7, 2, 2});
  in.is_last = 1;
  return table_.ride(instance_, FakeHost::get().ctx(), &in, &out, &error);
}

mneme_status Driver::finish(bool has_layers) {
  mneme_finish in = MNEME_INIT(mneme_finish);
  in.segment = &segment();
  in.top = FakeHost::get().borrowed({2, 5, 4});
  const mneme_tensor layers[3] = {FakeHost::get().borrowed({1}), FakeHost::get().borrowed({2}),
                                  FakeHost::get().borrowed({3})};
  in.layers = has_layers ? layers : nullptr;
  return table_.finish(instance_, FakeHost::get().ctx(), &in, &error);
}

const mneme_segment& Driver::segment() {
  static const int64_t counts[] = {5, 4};
  static const int64_t tokens[] = {10, 0};
  static const uint8_t resets[] = {0, 1};
  static const mneme_segment out = [] {
    mneme_segment s = MNEME_INIT(mneme_segment);
    s.flags = MNEME_SEGMENT_TRAINING | MNEME_SEGMENT_ANY_RESET;
    s.index = 6;
    s.lanes = 2;
    s.length = 5;
    s.previous_length = 5;
    s.layers = 3;
    s.tokens = tokens;
    s.valid_count = counts;
    s.reset = resets;
    s.compute_dtype = MNEME_F32;
    return s;
  }();
  return out;
}

}  // namespace mneme::test
