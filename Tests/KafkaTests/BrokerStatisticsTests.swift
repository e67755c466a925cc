import Testing

@testable import Kafka

/// What librdkafka's statistics say about the brokers. The texts have the format of librdkafka 2.0.2.
struct BrokerStatisticsTests {
    private struct Connection {
        var isCoordinator = false
        var state = "UP"
        var awaitedCount = 0
        var silenceSeconds = 0.1
    }

    private static func read(_ connections: [Connection], joinState: String = "steady") -> BrokerStatistics {
        let brokers = connections.map { connection in
            """
            "b": { "name":"b", "nodeid":1, "nodename":"b:1", \
            "source":"\(connection.isCoordinator ? "logical" : "learned")", "state":"\(connection.state)", \
            "stateage":7, "waitresp_cnt":\(connection.awaitedCount), "waitresp_msg_cnt":0, "txidle":5, \
            "rxidle":\(Int(connection.silenceSeconds * 1e6)), "toppars":{ } }
            """
        }
        let text =
            "{ \"brokers\":{ \(brokers.joined(separator: ", ")) }, \"topics\":{ }, "
            + "\"cgrp\": { \"state\": \"up\", \"join_state\": \"\(joinState)\" } }"
        return Array(text.utf8).withUnsafeBytes { BrokerStatistics(json: $0) }
    }

    @Test func `A broker that owes a response for five seconds is not up`() {
        let silent = Self.read([
            Connection(awaitedCount: 1, silenceSeconds: 5),
            Connection(isCoordinator: true, awaitedCount: 1, silenceSeconds: 6),
        ])
        #expect(silent.isAnyConnectionUp && !silent.isAnyBrokerUp(wasUp: true))
        let slow = Self.read([Connection(awaitedCount: 1, silenceSeconds: 4.9)])
        #expect(slow.isAnyBrokerUp(wasUp: true))
    }

    @Test func `One broker that responds is enough`() {
        let statistics = Self.read([Connection(awaitedCount: 1, silenceSeconds: 60), Connection()])
        #expect(statistics.isAnyBrokerUp(wasUp: true) && statistics.isAnyBrokerUp(wasUp: false))
    }

    @Test func `Brokers that owe nothing may be silent`() {
        let idle = Self.read([Connection(silenceSeconds: 60), Connection(state: "INIT")])
        #expect(idle.isAnyBrokerUp(wasUp: true) && idle.isAnyBrokerUp(wasUp: nil))
        #expect(!idle.isAnyBrokerUp(wasUp: false), "silence does not show that the brokers are back")
    }

    /// The coordinator waits for the other members before it responds.
    @Test(arguments: ["wait-join", "wait-sync"])
    func `A long rebalance is no outage`(joinState: String) {
        let coordinator = Connection(isCoordinator: true, awaitedCount: 1, silenceSeconds: 40)
        #expect(Self.read([coordinator], joinState: joinState).isAnyBrokerUp(wasUp: true))
        #expect(!Self.read([coordinator]).isAnyBrokerUp(wasUp: true))
        let silent = Connection(awaitedCount: 1, silenceSeconds: 40)
        #expect(!Self.read([coordinator, silent], joinState: joinState).isAnyBrokerUp(wasUp: true))
    }

    @Test func `Without a connection no broker is up`() {
        for statistics in [Self.read([]), Self.read([Connection(state: "DOWN"), Connection(state: "CONNECT")])] {
            #expect(!statistics.isAnyConnectionUp && !statistics.isAnyBrokerUp(wasUp: true))
        }
    }

    @Test func `Statistics without times need only a connection`() {
        let text = "{ \"brokers\":{ \"b\": { \"source\":\"learned\", \"state\":\"UP\" } } }"
        let statistics = Array(text.utf8).withUnsafeBytes { BrokerStatistics(json: $0) }
        #expect(statistics.isAnyBrokerUp(wasUp: false))
    }
}
