import Glibc
import Reactor
import Testbed
import Testing

extension ReactorTests {
    @Suite struct Listening {
        @Test func `Many connections at once are all accepted`() throws {
            let loop = try EventLoop()
            let server = try StreamServer(loop: loop)
            #expect(server.address.port != 0)
            let recorder = StreamRecorder()
            let clients = (0..<300)
                .map { _ in
                    let stream = Stream(loop: loop, handler: recorder)
                    stream.connect(to: server.address, tls: nil, serverName: nil, timeoutMilliseconds: 5_000)
                    return stream
                }
            runLoop(loop) { server.connections.count == 300 && recorder.connectedCount == 300 }
            #expect(recorder.closeErrors.isEmpty)
            for client in clients { client.close() }
            server.close()
        }

        @Test func `An address in use is an error, and is free again after close`() throws {
            let loop = try EventLoop()
            // `findUnusedLoopbackPort` chooses from ports that the system gives to no other socket. So the port stays
            // free while no server listens on it.
            let address = SocketAddress.loopback(port: try Listener.findUnusedLoopbackPort())
            let server = try StreamServer(loop: loop, address: address)
            #expect(throws: SystemError(code: EADDRINUSE, operation: "bind")) {
                try StreamServer(loop: loop, address: address)
            }
            server.close()
            try StreamServer(loop: loop, address: address).close()
        }

        /// A new process has copies of all descriptors of its parent until it executes its program. A copy of a
        /// listening socket keeps the port in use.
        @Test func `An unused port stays free while processes start`() async throws {
            async let processes: Void = startProcesses(1_000)
            async let moreProcesses: Void = startProcesses(1_000)
            // Both tasks above begin on this test's thread. If the loop below ran on this thread too, they could only
            // begin after the loop. So the loop gets a thread of its own.
            try await onOwnThread {
                for _ in 0..<20_000 {
                    _ = try ListeningSocket(address: .loopback(port: Listener.findUnusedLoopbackPort()), backlog: 1)
                }
            }
            _ = try await (processes, moreProcesses)
        }

        @Test func `Closing a listener on a Unix socket removes its path`() throws {
            let loop = try EventLoop()
            let directory = try TemporaryDirectory()
            let path = "\(directory.path)/socket"
            let server = try StreamServer(loop: loop, address: #require(SocketAddress.unix(path: path)))
            #expect(access(path, F_OK) == 0)
            server.close()
            #expect(access(path, F_OK) != 0)
        }

        // The two tests below run in separate processes: one lowers the process's limit on descriptors, and the other
        // counts the process's descriptors.

        @Test func `Without free descriptors, accepting pauses without spinning and continues later`() async {
            await #expect(processExitsWith: .success) { try ReactorTests.runOutOfDescriptors() }
        }

        @Test func `A thousand connections leave no descriptor behind`() async {
            await #expect(processExitsWith: .success) {
                try ReactorTests.openAndCloseConnections(kind: .tcp)
                try ReactorTests.openAndCloseConnections(kind: .tls13)
            }
        }
    }

    fileprivate static func runOutOfDescriptors() throws {
        let loop = try EventLoop()
        let server = try StreamServer(loop: loop)
        let recorder = StreamRecorder()
        let client = Stream(loop: loop, handler: recorder)
        client.connect(to: server.address, tls: nil, serverName: nil, timeoutMilliseconds: 5_000)
        var limit = rlimit()
        #expect(getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0)
        // With this limit, only 0, 1 and 2 are allowed as new descriptors, and these are in use. So no descriptor is
        // free, even if another thread of the process closes one of its own.
        var loweredLimit = rlimit(rlim_cur: 3, rlim_max: limit.rlim_max)
        #expect(setrlimit(Int32(RLIMIT_NOFILE.rawValue), &loweredLimit) == 0)
        #expect(dup(0) == -1)
        runLoop(loop) { recorder.connectedCount == 1 }
        runLoop(loop, forMilliseconds: 20)
        #expect(server.connections.isEmpty)
        // While accepting pauses, an iteration sleeps until the pause ends. The waiting connection does not wake
        // it.
        let end = loop.nowMilliseconds + 400
        var iterationCount = 0
        while loop.nowMilliseconds < end {
            loop.runIteration(waitMilliseconds: Int32(end - loop.nowMilliseconds))
            iterationCount += 1
        }
        #expect(iterationCount < 30)
        #expect(server.connections.isEmpty)
        #expect(setrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0)
        runLoop(loop) { server.connections.count == 1 }
        client.close()
        server.close()
    }

    fileprivate static func openAndCloseConnections(kind: StreamPair.Kind) throws {
        let loop = try EventLoop()
        let certificates = try TestCertificates()
        let server = try StreamServer(loop: loop, tls: kind.isTLS ? certificates.server() : nil)
        let tls = kind.isTLS ? try certificates.client() : nil
        var descriptorCountBefore = 0
        for round in 0..<1_000 {
            let recorder = StreamRecorder()
            let client = Stream(loop: loop, handler: recorder)
            client.connect(to: server.address, tls: tls, serverName: "localhost", timeoutMilliseconds: 5_000)
            // The client closes a third of the connections before they are established. Of the established connections,
            // the server closes one half, and the client closes the other half.
            if round % 3 != 0 {
                runLoop(loop) {
                    recorder.connectedCount == 1 && server.connections.first?.recorder.connectedCount == 1
                }
            }
            if round % 3 == 1 {
                server.forgetConnections()
                runLoop(loop) { recorder.isClosed }
            } else {
                client.close()
                runLoop(loop) {
                    server.connections.allSatisfy { $0.recorder.isClosed }
                        && (round % 3 == 0 || !server.connections.isEmpty)
                }
            }
            server.forgetConnections()
            // The server may accept a connection that the client has closed before it was established. These iterations
            // let the server accept such connections and close them.
            for _ in 0..<2 { loop.runIteration(waitMilliseconds: 0) }
            server.forgetConnections()
            if round == 20 { descriptorCountBefore = countOpenDescriptors() }
        }
        runLoop(loop, forMilliseconds: 5)
        server.forgetConnections()
        #expect(countOpenDescriptors() <= descriptorCountBefore)
        #expect(loop.timerCount == 0)
        server.close()
    }

    @Suite struct Addresses {
        @Test(arguments: [
            ("127.0.0.1", "127.0.0.1:80"), ("255.255.255.255", "255.255.255.255:80"), ("::1", "[::1]:80"),
            ("[2001:DB8::0:1]", "[2001:db8::1]:80"), ("::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80"),
        ])
        func `Numeric addresses are converted to the C form and back`(text: String, description: String) throws {
            let address = try #require(SocketAddress(numeric: text, port: 80))
            #expect(address.description == description)
            #expect(address.withSockaddr { SocketAddress($0, length: $1) } == address)
            #expect(address.withSockaddr { SocketAddress($0, length: $1 - 1) } == nil)
            #expect(address.with(port: 81).port == 81)
            #expect(address.with(port: 81) != address)
        }

        @Test(arguments: ["", "localhost", "127.0.0", "127.0.0.1.", "1.2.3.256", "[]", "[::1", "::1]", "1.2.3.4\0"])
        func `A text that is no numeric address is refused`(text: String) {
            #expect(SocketAddress(numeric: text, port: 80) == nil)
        }

        @Test func `Unix paths are accepted up to the limit`() throws {
            let longest = String(repeating: "p", count: SocketAddress.unixPathBytesMax)
            let address = try #require(SocketAddress.unix(path: longest))
            #expect(address.withSockaddr { SocketAddress($0, length: $1) } == address)
            #expect(address.port == 0)
            #expect(address.isUnix)
            for path in ["", longest + "p", "a\0b"] { #expect(SocketAddress.unix(path: path) == nil) }
        }
    }

    @Suite struct TLSMaterial {
        @Test func `Unusable files are named, with the reason`() throws {
            let certificates = try TestCertificates()
            let other = try TestCertificates()
            let missingFile = "\(certificates.directory.path)/missing.pem"
            func error(_ make: () throws -> TLSContext) throws -> TLSError {
                try #require(throws: TLSError.self) { _ = try make() }
            }
            let authorities = try error { try TLSContext.client(caFile: missingFile, applicationProtocols: []) }
            #expect(authorities.code == .authoritiesUnusable)
            #expect(authorities.reason.contains("missing.pem"))
            #expect(authorities.reason.lowercased().contains("no such file"))
            let chain = try error {
                try TLSContext.server(
                    certificateFile: missingFile,
                    keyFile: certificates.keyFile,
                    applicationProtocols: []
                )
            }
            #expect(chain.code == .certificateUnusable)
            let notAKey = try error {
                try TLSContext.server(
                    certificateFile: certificates.certificateFile,
                    keyFile: certificates.caFile,
                    applicationProtocols: []
                )
            }
            #expect(notAKey.code == .privateKeyUnusable)
            #expect(notAKey.reason.contains("ca.pem"))
            let notItsKey = try error {
                try TLSContext.server(
                    certificateFile: certificates.certificateFile,
                    keyFile: other.keyFile,
                    applicationProtocols: []
                )
            }
            #expect(notItsKey.code == .privateKeyUnusable)
            #expect(notItsKey.reason.contains("mismatch"))
        }

        @Test(arguments: ["", String(repeating: "x", count: 256)])
        func `App protocols that ALPN cannot carry are refused`(name: String) throws {
            let error = try #require(throws: TLSError.self) {
                _ = try TLSContext.client(caFile: nil, applicationProtocols: ["h2", name])
            }
            #expect(error.code == .applicationProtocolsInvalid)
        }

        @Test func `The system's authorities do not trust our own certificate`() throws {
            let loop = try EventLoop()
            let server = try StreamServer(loop: loop, tls: TestCertificates().server([]))
            let recorder = StreamRecorder()
            let client = Stream(loop: loop, handler: recorder)
            let tls = try TLSContext.client(caFile: nil, applicationProtocols: [])
            client.connect(to: server.address, tls: tls, serverName: "localhost", timeoutMilliseconds: 5_000)
            runLoop(loop) { recorder.isClosed }
            #expect(recorder.error?.code == .certificateRefused)
            server.close()
        }

        @Test func `Only their owner can read keys, and nothing else is left in the directory`() throws {
            let certificates = try TestCertificates()
            // Writes the certificate a second time, over the first one.
            _ = try GeneratedCertificate.write(directory: certificates.directory.path, hosts: ["localhost"])
            var status = stat()
            #expect(stat(certificates.keyFile, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            var names: Set<String> = []
            let directory = try #require(opendir(certificates.directory.path))
            while let entry = readdir(directory) {
                withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                    _ = names.insert(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self))
                }
            }
            closedir(directory)
            #expect(names == [".", "..", "ca.pem", "server.pem", "server-key.pem"])
        }

        @Test(arguments: ["", "a,DNS:b", "a b", "a\n", "host:1", String(repeating: "x", count: 254)])
        func `A certificate for an invalid host is refused`(host: String) throws {
            let directory = try TemporaryDirectory()
            let error = try #require(throws: TLSError.self) {
                _ = try GeneratedCertificate.write(directory: directory.path, hosts: [host])
            }
            #expect(error.code == .serverNameInvalid)
        }
    }
}

private func startProcesses(_ count: Int) async throws {
    try await onOwnThread {
        for _ in 0..<count {
            let path = try #require(strdup("/bin/true"))
            defer { free(path) }
            var process: pid_t = 0
            try #require(posix_spawn(&process, path, nil, nil, [path, nil], environ) == 0)
            try #require(waitpid(process, nil, 0) == process)
        }
    }
}
