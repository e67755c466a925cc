import Foundation
import Glibc
import Kafka
import Testbed
import Testing

@Suite struct EmbeddedBrokerTests {
    /// If the port were free while the broker is down, another program could take it, and the broker could not start
    /// again.
    @Test func `A broker that is down keeps its port`() throws {
        let broker = try EmbeddedBroker()
        let port = try #require(broker.bootstrapServers.split(separator: ":").last.flatMap { UInt16($0) })
        try broker.takeDown()
        #expect(bindError(port) == EADDRINUSE)
        try broker.bringUp()
        #expect(bindError(port) == EADDRINUSE, "its listener has it")
    }

    /// `takeDown` closes the broker's listener and binds the port again. A program that is just being started may have
    /// a copy of the listener. Then the bind would fail, and librdkafka would end this process. So `takeDown` lets no
    /// program start meanwhile.
    @Test func `A broker goes down while programs are started`() async {
        await #expect(processExitsWith: .success) {
            // At the end of this scope the task is cancelled and awaited.
            async let _: Void = Self.startPrograms()
            let broker = try EmbeddedBroker()
            for _ in 0..<6 {
                try broker.takeDown()
                try broker.bringUp()
            }
        }
    }

    private static func startPrograms() async throws {
        while !Task.isCancelled {
            let program = Process()
            program.executableURL = URL(fileURLWithPath: "/bin/true")
            try program.start()
        }
    }

    private func bindError(_ port: UInt16) -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 ? 0 : errno
            }
        }
    }
}
