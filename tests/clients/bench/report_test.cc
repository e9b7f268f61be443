#include "clients/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "clients/bench/report_svg.h"
#include "clients/bench/report_text.h"
#include "proto/bole.pb.h"

namespace bole::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Due at 10, sent at 11; a token at 12, three at 15, two at 16; ended at 16.
RequestRecord Ended() {
  RequestRecord record;
  record.scheduled = 10;
  record.sent = 11;
  record.arrivals = {{12, 1}, {15, 3}, {16, 2}};
  record.end = 16;
  record.prompt_tokens = 100;
  record.cached_tokens = 64;
  record.speculation.set_rounds(2);
  record.speculation.set_accepted_drafts(3);
  return record;
}

RequestRecord Refused() {
  RequestRecord record;
  record.scheduled = 12;
  record.sent = 12;
  record.end = 13;
  record.retries = 2;
  record.status = absl::ResourceExhaustedError("256 requests wait");
  record.reason = "QUEUE_REQUESTS";
  return record;
}

RequestRecord Lost() {
  RequestRecord record;
  record.scheduled = 14;
  record.sent = 14;
  record.arrivals = {{20, 2}};
  record.end = 30;
  record.status = absl::UnavailableError("the worker is gone");
  return record;
}

Report ReportOf(const std::vector<RequestRecord>& records, Slo slo = {}) {
  return MakeReport(records, slo, /*num_dropped=*/0);
}

TEST(ReportTest, LatenciesCountFromTheScheduledArrival) {
  const Report report = ReportOf({Ended()});

  EXPECT_THAT(report.ttft.sorted(), ElementsAre(2));
  EXPECT_THAT(report.e2e.sorted(), ElementsAre(6));
  EXPECT_THAT(report.lag.sorted(), ElementsAre(1));
  EXPECT_THAT(report.sent_ttft.sorted(), ElementsAre(1));
  EXPECT_THAT(report.sent_e2e.sorted(), ElementsAre(5));
}

TEST(ReportTest, AnInterTokenLatencyIsAMessagesGapOverItsTokens) {
  const Report report = ReportOf({Ended()});

  EXPECT_THAT(report.itl.sorted(), ElementsAre(0.5, 0.5, 1, 1, 1));
  // (16 - 12) / (6 - 1)
  EXPECT_THAT(report.tpot.sorted(), ElementsAre(0.8));
}

TEST(ReportTest, TokensThatCameWithTheFirstTookNoTime) {
  RequestRecord record = Ended();
  record.arrivals = {{12, 3}, {14, 1}};

  const Report report = ReportOf({record});

  EXPECT_THAT(report.itl.sorted(), ElementsAre(0, 0, 2));
}

TEST(ReportTest, ARequestOfOneTokenHasNoTimePerToken) {
  RequestRecord record = Ended();
  record.arrivals = {{12, 1}};

  EXPECT_EQ(ReportOf({record}).tpot.count(), 0u);
}

TEST(ReportTest, WhatDidNotEndWellIsCountedByItsReason) {
  const Report report = ReportOf({Ended(), Refused(), Lost()});

  EXPECT_EQ(report.num_requests, 3);
  EXPECT_EQ(report.num_succeeded, 1);
  EXPECT_EQ(report.num_refused, 1);
  EXPECT_EQ(report.num_failed, 1);
  EXPECT_EQ(report.num_retries, 2);
  EXPECT_EQ(report.failures.at("RESOURCE_EXHAUSTED QUEUE_REQUESTS"), 1);
  EXPECT_EQ(report.failures.at("UNAVAILABLE"), 1);
  // What came before the loss counts; the end that never was does not.
  EXPECT_EQ(report.output_tokens, 8);
  EXPECT_EQ(report.ttft.count(), 2u);
  EXPECT_EQ(report.e2e.count(), 1u);
}

TEST(ReportTest, RatesAreOverTheTimeFromTheFirstArrivalToTheLastEnd) {
  const Report report = ReportOf({Ended(), Refused(), Lost()});

  EXPECT_EQ(report.duration, 20);
  EXPECT_EQ(report.request_rate(), 1.0 / 20);
  EXPECT_EQ(report.output_token_rate(), 8.0 / 20);
  EXPECT_EQ(report.mean_accepted_tokens(), 1 + 3.0 / 2);
}

TEST(ReportTest, GoodRequestsMeetEveryBoundAndRefusedOnesNone) {
  EXPECT_EQ(ReportOf({Ended(), Refused()}).num_good, 1);
  EXPECT_EQ(ReportOf({Ended(), Refused()}).attainment(), 0.5);
  EXPECT_EQ(ReportOf({Ended()}, {.ttft = 2, .tpot = 0.8, .e2e = 6}).num_good,
            1);
  EXPECT_EQ(ReportOf({Ended()}, {.ttft = 1.9}).num_good, 0);
  EXPECT_EQ(ReportOf({Ended()}, {.tpot = 0.7}).num_good, 0);
  EXPECT_EQ(ReportOf({Ended()}, {.e2e = 5.9}).num_good, 0);
}

TEST(ReportTest, ARetryIsNoLagOfTheClient) {
  EXPECT_EQ(ReportOf({Refused()}).lag.count(), 0u);
}

TEST(ReportTest, ALateClientIsWarnedOf) {
  RequestRecord in_time = Ended();
  in_time.sent = 10.001;

  EXPECT_TRUE(ClientWasLate(ReportOf({Ended()})));
  EXPECT_THAT(FormatReport(ReportOf({Ended()})), HasSubstr("sent late"));
  EXPECT_FALSE(ClientWasLate(ReportOf({in_time})));
  EXPECT_THAT(FormatReport(ReportOf({in_time})), Not(HasSubstr("sent late")));
}

TEST(ReportTest, TheTextHasTheNumbers) {
  const std::string text =
      FormatReport(ReportOf({Ended(), Refused(), Lost()}, {.ttft = 2}));

  EXPECT_THAT(text, HasSubstr("3 sent, 1 ended well, 1 refused, 1 failed"));
  EXPECT_THAT(text, HasSubstr("33.3 % of all (bounds: ttft <= 2000 ms)"));
  EXPECT_THAT(text, HasSubstr("2.50 (3 drafts accepted in 2 rounds)"));
  EXPECT_THAT(text, HasSubstr("64 of 100 prompt tokens (64.0 %)"));
  EXPECT_THAT(text, HasSubstr("1  RESOURCE_EXHAUSTED QUEUE_REQUESTS\n"));
}

TEST(ReportTest, WhatWasVerifiedIsAddedUp) {
  RequestRecord off = Ended();
  off.speculation.set_off_rounds(2);
  off.speculation.set_off_reason(v1::SPECULATION_OFF_REASON_REQUEST);
  off.speculation.set_selected_nodes(2);
  RequestRecord mixed = Ended();
  mixed.speculation.set_rounds(6);
  mixed.speculation.set_off_rounds(3);
  mixed.speculation.set_off_reason(v1::SPECULATION_OFF_REASON_NOT_WORTH_IT);
  mixed.speculation.set_chain_rounds(1);
  mixed.speculation.set_tree_rounds(2);
  mixed.speculation.set_selected_nodes(34);
  mixed.speculation.set_promised_tokens(9);

  const Report report = ReportOf({off, mixed});

  EXPECT_EQ(report.speculation.rounds(), 8u);
  EXPECT_EQ(report.off_reasons.at(v1::SPECULATION_OFF_REASON_REQUEST), 2);
  EXPECT_EQ(report.off_reasons.at(v1::SPECULATION_OFF_REASON_NOT_WORTH_IT), 3);
  EXPECT_THAT(
      FormatReport(report),
      HasSubstr("off in 5 (not worth it on this device), chain in 1, tree in 2 "
                "of 8 rounds; 2.00 drafts accepted of 3.00 promised a round; "
                "4.5 nodes a request and round\n"));
}

TEST(ReportTest, AServerThatDoesNotTellWhatItChoseIsNotQuoted) {
  EXPECT_THAT(FormatReport(ReportOf({Ended()})), Not(HasSubstr("speculation")));
}

TEST(ReportTest, ARunWithoutRequestsHasAReport) {
  const Report report = ReportOf({});

  EXPECT_EQ(report.duration, 0);
  EXPECT_EQ(report.goodput(), 0);
  EXPECT_THAT(FormatReport(report), HasSubstr("0 sent"));
  EXPECT_THAT(ReportSvg("none", report, {}), HasSubstr("</svg>"));
}

TEST(ReportTest, TheChartsEscapeTheirTitleAndHoldNoNan) {
  const std::vector<RequestRecord> records = {Ended(), Refused(), Lost()};

  const std::string svg = ReportSvg("a < b", ReportOf(records), records);

  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("streaming"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace bole::bench
