import Reactor

extension Simulator {
    /// Starts the service's threads. The thread that listens starts last, so that the others can already take its
    /// connections.
    func startThreads(
        _ runningService: inout RunningService,
        setup: ServiceSetup,
        addresses: [SocketAddress],
        seed: UInt64
    ) async throws(SimulatorError) {
        let faultSampler = FaultSampler(configuration.faults)
        do {
            for _ in 0..<configuration.threadCount { runningService.mailboxes.append(try ServerLoopMailbox()) }
            for index in runningService.mailboxes.indices.reversed() {
                let mailboxes = runningService.mailboxes
                let listenAddresses = index == 0 ? addresses : []
                let (thread, ports) = try await startThread(index) { loop throws(SimulatorError) in
                    try Self.makeServer(
                        loop,
                        setup,
                        mailboxes,
                        index,
                        faultSampler: faultSampler,
                        seed: seed,
                        addresses: listenAddresses
                    )
                }
                runningService.threads.append(thread)
                if ports.count == 2 { (runningService.port, runningService.managementPort) = (ports[0], ports[1]) }
            }
        } catch let error as SimulatorError {
            throw error
        } catch {
            // A thread or a mailbox could not be created. A thread that did not start is not in
            // `runningService.threads`, so `stopThreads` does not wait for it.
            throw SimulatorError(.cannotListen, "\(error)")
        }
    }

    /// Makes the `ServerLoop` of a service thread, and returns it with the ports on which it listens. Must run on that
    /// thread.
    private static func makeServer(
        _ loop: EventLoop,
        _ setup: ServiceSetup,
        _ mailboxes: [ServerLoopMailbox],
        _ index: Int,
        faultSampler: FaultSampler,
        seed: UInt64,
        addresses: [SocketAddress]
    ) throws(SimulatorError) -> (ServerLoop, [UInt16]) {
        let server: ServerLoop
        do throws(SystemError) {
            server = try ServerLoop(
                loop: loop,
                setup: setup,
                mailbox: mailboxes[index],
                faultSampler: faultSampler,
                seed: seed &+ UInt64(index) &* 0xD134_2543_DE82_EF95
            )
        } catch {
            throw SimulatorError(.cannotListen, "\(error)")
        }
        var ports: [UInt16] = []
        for (address, service) in zip(addresses, [SimulatedService.push, .management]) {
            do throws(SystemError) {
                ports.append(try server.listen(on: address, for: service, threadMailboxes: mailboxes))
            } catch {
                throw SimulatorError(address, error)
            }
        }
        return (server, ports)
    }

    /// Starts a service thread, which first makes its server with `make`. Returns the thread, and the ports on which
    /// this server listens.
    private func startThread(
        _ index: Int,
        _ make: @escaping @Sendable (EventLoop) throws(SimulatorError) -> (ServerLoop, [UInt16])
    ) async throws -> (LoopThread, [UInt16]) {
        let ports = AsyncStream<Result<[UInt16], SimulatorError>>.makeStream()
        let thread = try LoopThread.start(name: "simulator-\(index)") { loop in
            do throws(SimulatorError) {
                let (server, threadPorts) = try make(loop)
                ports.continuation.yield(.success(threadPorts))
                ports.continuation.finish()
                withExtendedLifetime(server) { loop.run() }
            } catch {
                ports.continuation.yield(.failure(error))
                ports.continuation.finish()
            }
        }
        for await port in ports.stream { return (thread, try port.get()) }
        throw SystemError(code: 0, operation: "thread ended")
    }
}
