import Glibc
import Reactor
import Synchronization
import Testbed
import Testing

private final class WakeupCounter: DescriptorHandler {
    let wakeup: Wakeup
    var wakeCount = 0
    var onWake: (() -> Void)?

    init(loop: EventLoop) throws {
        wakeup = try Wakeup()
        try loop.add(descriptor: wakeup.descriptor, interest: .readable, handler: self)
    }

    func descriptorReady(_ events: DescriptorEvents) {
        wakeup.reset()
        wakeCount += 1
        onWake?()
    }
}

/// Three numbers that follow from the index. If they do not match, a thread has read an element that was only partly
/// written.
private struct Element: BitwiseCopyable, Equatable {
    var index: Int
    var square: Int
    var complement: Int

    init(_ index: Int) {
        self.index = index
        square = index &* index
        complement = ~index
    }
}

/// Tests rings between threads, wake-ups, the threads of loops, and look-ups of names. (R2)
extension ReactorTests {
    /// Waits until the wake-up is signalled, and clears it.
    private static func awaitSignal(of wakeup: Wakeup) {
        var descriptor = pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0)
        _ = poll(&descriptor, 1, -1)
        wakeup.reset()
    }

    @Suite struct Rings {
        /// Each thread signals the other one only after this many elements, and before it waits or ends. In between,
        /// only the ring orders the two threads' memory accesses.
        private static let elementsPerSignal = 64

        @Test func `A ring can be filled to its capacity again and again, and keeps the order`() {
            let ring = SingleProducerRing<Int>(capacity: 8)
            #expect(ring.capacity == 8)
            #expect(ring.pop() == nil)
            var pushedCount = 0
            var poppedCount = 0
            for repetition in 0..<1_000 {
                let burstCount = repetition % 8 + 1
                for _ in 0..<burstCount {
                    #expect(ring.push(pushedCount))
                    pushedCount += 1
                }
                #expect(ring.count == burstCount)
                if burstCount == 8 { #expect(!ring.push(-1)) }
                for _ in 0..<burstCount {
                    #expect(ring.pop() == poppedCount)
                    poppedCount += 1
                }
                #expect(ring.pop() == nil)
            }
        }

        @Test func `Elements can be read without being taken`() {
            let ring = SingleProducerRing<Int>(capacity: 4)
            for element in 0..<4 { #expect(ring.push(element)) }
            #expect(ring.pop() == 0)
            #expect((0..<4).map { ring.peek(at: $0) } == [1, 2, 3, nil])
            #expect(ring.push(4))
            #expect(ring.pop() == 1)
            #expect(ring.peek(at: 0) == 2 && ring.peek(at: 1) == 3)
            #expect(ring.peek(at: 2) == nil, "it came since the ring was last looked into")
            #expect([ring.pop(), ring.pop(), ring.pop(), ring.pop()] == [2, 3, 4, nil])
        }

        @Test func `Millions of elements pass between two threads, each once, whole and in order`() throws {
            let ring = SingleProducerRing<Element>(capacity: 256)
            let elementCount = 3_000_000
            let (filledWakeup, emptiedWakeup) = (try Wakeup(), try Wakeup())
            let producer = try LoopThread.start(name: "producer") { _ in
                var index = 0
                while index < elementCount {
                    if ring.push(Element(index)) {
                        index += 1
                        if index.isMultiple(of: Self.elementsPerSignal) { filledWakeup.signal() }
                    } else {
                        filledWakeup.signal()
                        ReactorTests.awaitSignal(of: emptiedWakeup)
                    }
                }
                filledWakeup.signal()
            }
            var expectedIndex = 0
            var areElementsWhole = true
            while expectedIndex < elementCount {
                guard let element = ring.pop() else {
                    emptiedWakeup.signal()
                    ReactorTests.awaitSignal(of: filledWakeup)
                    continue
                }
                areElementsWhole = areElementsWhole && element == Element(expectedIndex)
                expectedIndex += 1
                if expectedIndex.isMultiple(of: Self.elementsPerSignal) { emptiedWakeup.signal() }
            }
            producer.join()
            #expect(areElementsWhole)
            #expect(ring.pop() == nil)
        }
    }

    @Suite struct Wakeups {
        @Test func `Signals before a reset are one wake-up, and a signal after it is another`() throws {
            let loop = try EventLoop()
            let counter = try WakeupCounter(loop: loop)
            loop.runIteration(waitMilliseconds: 0)
            #expect(counter.wakeCount == 0)
            for _ in 0..<3 { counter.wakeup.signal() }
            for _ in 0..<3 { loop.runIteration(waitMilliseconds: 0) }
            #expect(counter.wakeCount == 1)
            counter.wakeup.signal()
            loop.runIteration(waitMilliseconds: 0)
            #expect(counter.wakeCount == 2)
            loop.remove(descriptor: counter.wakeup.descriptor)
        }

        @Test func `A C library's write to the descriptor wakes as well`() throws {
            let loop = try EventLoop()
            let counter = try WakeupCounter(loop: loop)
            var one: UInt64 = 1
            #expect(write(counter.wakeup.descriptor, &one, 8) == 8)
            for _ in 0..<2 { loop.runIteration(waitMilliseconds: 0) }
            #expect(counter.wakeCount == 1)
            loop.remove(descriptor: counter.wakeup.descriptor)
        }

        @Test func `A wake-up after each push leaves no element in the ring`() throws {
            let loop = try EventLoop()
            let counter = try WakeupCounter(loop: loop)
            let ring = SingleProducerRing<Int>(capacity: 1_024)
            let wakeup = counter.wakeup
            let emptiedWakeup = try Wakeup()
            let elementCount = 300_000
            var takenCount = 0
            // The loop sleeps without a time limit, so a lost wake-up would let the test hang.
            counter.onWake = {
                while ring.pop() != nil { takenCount += 1 }
                emptiedWakeup.signal()
                if takenCount == elementCount { loop.stop() }
            }
            let producer = try LoopThread.start(name: "producer") { _ in
                var index = 0
                while index < elementCount {
                    guard ring.push(index) else {
                        ReactorTests.awaitSignal(of: emptiedWakeup)
                        continue
                    }
                    index += 1
                    wakeup.signal()
                }
            }
            loop.run()
            producer.join()
            #expect(takenCount == elementCount)
            counter.onWake = nil
            loop.remove(descriptor: wakeup.descriptor)
        }
    }

    @Suite struct LoopThreads {
        @Test func `The body runs on a thread of the given name, and join waits for it`() throws {
            let name = Mutex("")
            let thread = try LoopThread.start(name: "a name of more than fifteen bytes") { loop in
                loop.runIteration(waitMilliseconds: 20)
                var text = [CChar](repeating: 0, count: 32)
                let file = open("/proc/thread-self/comm", O_RDONLY)
                let count = read(file, &text, 31)
                close(file)
                name.withLock { name in
                    name = String(decoding: text.prefix(max(0, count - 1)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
                }
            }
            thread.join()
            thread.join()
            #expect(name.withLock { $0 } == "a name of more ")
        }

        // This test counts descriptors. It runs in a separate process, because other tests open descriptors at the same
        // time.
        @Test func `When the body returns, everything left on the loop is released with the loop`() async {
            await #expect(processExitsWith: .success) { try ReactorTests.leaveHandlersOnLoop() }
        }
    }

    fileprivate static func leaveHandlersOnLoop() throws {
        // The first look-up opens descriptors of the system's name service, which stay open for the whole
        // process.
        try leaveHandlersOnLoop(times: 1)
        let previousDescriptorCount = countOpenDescriptors()
        try leaveHandlersOnLoop(times: 20)
        // A look-up may outlive its loop. Until it is done, it keeps the descriptor of its `Wakeup` and opens files of
        // its own. So the test counts until no more descriptors are open than before.
        try eventually("descriptors that are closed", every: .milliseconds(1)) {
            countOpenDescriptors() <= previousDescriptorCount
        }
    }

    fileprivate static func leaveHandlersOnLoop(times: Int) throws {
        for _ in 0..<times {
            let thread = try LoopThread.start(name: "leaves things") { loop in
                do {
                    let server = try StreamServer(loop: loop)
                    let recorder = StreamRecorder()
                    let stream = Stream(loop: loop, handler: recorder)
                    stream.connect(to: server.address, tls: nil, serverName: nil, timeoutMilliseconds: 10_000)
                    while recorder.connectedCount == 0 { loop.runIteration(waitMilliseconds: 100) }
                    loop.resolve(host: "localhost", port: 1) { _ in }
                } catch {
                    Issue.record(error)
                }
            }
            thread.join()
        }
    }

    @Suite struct Resolving {
        private func resolve(_ host: String, port: UInt16 = 443) throws -> Result<[SocketAddress], ResolveError> {
            let loop = try EventLoop()
            var result: Result<[SocketAddress], ResolveError>?
            loop.resolve(host: host, port: port) { result = $0 }
            #expect(result == nil)
            runLoop(loop) { result != nil }
            return try #require(result)
        }

        @Test func `A name in the hosts file is resolved, with the requested port`() throws {
            let addresses = try resolve("localhost", port: 2_197).get()
            #expect(addresses.contains(.loopback(port: 2_197)))
            #expect(addresses.allSatisfy { $0.port == 2_197 })
        }

        @Test func `Numeric hosts are resolved`() throws {
            #expect(try resolve("192.0.2.1", port: 443).get().map(\.description) == ["192.0.2.1:443"])
            #expect(try resolve("2001:db8::1", port: 443).get().map(\.description) == ["[2001:db8::1]:443"])
        }

        @Test func `An invalid name fails with the name in the reason`() throws {
            // A label may have at most 63 bytes (RFC 1035, section 2.3.4), so no name server is asked.
            let host = String(repeating: "x", count: 300)
            guard case .failure(let error) = try resolve(host) else {
                Issue.record("a name of 300 bytes was resolved")
                return
            }
            #expect(error.reason.contains(host))
        }

        @Test func `Look-ups beyond the limit fail at once, and every completion is called once`() throws {
            let loop = try EventLoop()
            var results: [Int: Result<[SocketAddress], ResolveError>] = [:]
            let lookUpCount = 200
            for index in 0..<lookUpCount {
                loop.resolve(host: "localhost", port: 1) {
                    #expect(results[index] == nil)
                    results[index] = $0
                }
            }
            runLoop(loop) { results.count == lookUpCount }
            var refusedCount = 0
            for case .failure(let error) in results.values {
                #expect(error.code == .tooManyLookups)
                #expect(error.isRetriable)
                refusedCount += 1
            }
            #expect(refusedCount == lookUpCount - EventLoop.lookupsMax)
            // The finished look-ups have made room for another one.
            results = [:]
            loop.resolve(host: "localhost", port: 1) { results[0] = $0 }
            runLoop(loop) { !results.isEmpty }
            #expect(throws: Never.self) { try results[0]?.get() }
        }
    }
}
