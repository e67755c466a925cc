import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Other programs use more than four fifths of an app's channels, which causes ``CausewayChannelsNearLimit``.
@Suite("The causes of alerts about channels", .timeLimit(.minutes(10)))
struct PrometheusAlertChannelTests {
    /// The channels exist before the worker's first check.
    @Test func `An app with almost all the channels that Apple allows causes an alert`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, deployment in
                let control = LoopbackHTTPClient(port: deployment.simulator.controlPort)
                let channel = Array(#"{"app":"com.example.ride"}"#.utf8)
                for _ in 0...8_000 { _ = try control.requestSuccessfully("POST", "/channels", body: channel) }
                return try ExampleRun.withChannels("ride-*", of: "com.example.ride")(text, deployment)
            }
            defer { run.close() }
            var history = PrometheusAlertHistory()
            let fullScrape = try run.awaitSteadyState("a list of channels") {
                $0.highest("causeway_channels_listed") > 8_000
            }
            history.add(fullScrape, minutes: 12, firing: "CausewayChannelsNearLimit")
            #expect(
                fullScrape.highest("causeway_channels_listed") == 8_001 && fullScrape.highest("causeway_channels") == 0
            )
            try history.evaluate()
        }
    }
}
