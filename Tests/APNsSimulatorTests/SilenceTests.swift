import Glibc
import Testing

@testable import APNsSimulator
@testable import Reactor

/// Whether the simulator reads from a connection again when the connection's output has drained, also if the simulator
/// has left the connection half open.
@Suite struct SilenceTests {
    private func withConnection(_ body: (ServerConnection, Stream) throws -> Void) throws {
        let loop = try EventLoop()
        let setup = ServiceSetup(
            keys: [],
            environment: .production,
            limits: SimulatorConfiguration.Limits(),
            tls: nil,
            simulatorState: SimulatorState(model: DeviceModel(environment: .production, seed: 1), isShared: false),
            notifier: RegistrationNotifier(),
            pushLogFile: nil
        )
        let owner = try ServerLoop(
            loop: loop,
            setup: setup,
            mailbox: Mailbox(),
            faultRanges: FaultRanges(Faults()),
            seed: 1
        )
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { close(ends[1]) }
        let connection = try #require(ServerConnection(ends[0], service: .push, owner: owner))
        defer {
            connection.close()
            owner.shutDown()
        }
        for _ in 0..<100 where connection.state != .serving { loop.turn(waitMilliseconds: 10) }
        #expect(connection.state == .serving)
        try body(connection, try #require(connection.stream))
    }

    @Test func `A connection whose output drained is read again`() throws {
        try withConnection { connection, stream in
            stream.pauseReading()
            connection.streamDrained(stream)
            #expect(!stream.isReadingPaused)
        }
    }

    @Test func `A connection that must not be read is not read after its output drained`() throws {
        try withConnection { connection, stream in
            stream.pauseReading()
            connection.becomeHalfOpen(stopsReading: true)
            connection.streamDrained(stream)
            #expect(stream.isReadingPaused)
        }
    }

    @Test func `A connection that is only silent is still read`() throws {
        try withConnection { connection, stream in
            stream.pauseReading()
            connection.becomeHalfOpen(stopsReading: false)
            connection.streamDrained(stream)
            #expect(!stream.isReadingPaused)
        }
    }
}
