import Dispatch
import Foundation
import Glibc
import Reactor
import Testbed
import Testing

private final class EventRecorder: TimerHandler, DescriptorHandler, IterationEndHandler {
    var firedTags: [UInt64] = []
    var events: [DescriptorEvents] = []
    var iterationEndCount = 0
    var onFired: ((UInt64) -> Void)?
    var onReady: ((DescriptorEvents) -> Void)?
    var onIterationEnd: (() -> Void)?
    var onDeinit: (() -> Void)?

    func timerFired(tag: UInt64) {
        firedTags.append(tag)
        onFired?(tag)
    }

    func descriptorReady(_ interest: DescriptorEvents) {
        events.append(interest)
        onReady?(interest)
    }

    func iterationEnded() {
        iterationEndCount += 1
        onIterationEnd?()
    }

    deinit { onDeinit?() }
}

private func makePipe() throws -> (read: Int32, write: Int32) {
    var pipeEnds: [Int32] = [0, 0]
    try #require(pipe(&pipeEnds) == 0)
    return (pipeEnds[0], pipeEnds[1])
}

// A signal handler may use no lock and no memory of its own, so these values are global.
private nonisolated(unsafe) var pipeEndForSignalHandler: Int32 = -1
private nonisolated(unsafe) var signalHandlerEndMilliseconds: Int64 = 0

/// Waits until a thread sleeps, for example in a wait for events.
///
/// - Parameter threadDirectory: the thread's directory in `/proc`.
private func waitUntilThreadSleeps(_ threadDirectory: String) {
    while true {
        let text = try? String(contentsOfFile: "/proc/\(threadDirectory)/stat", encoding: .utf8)
        // The state follows the thread's name, which is in parentheses.
        if let text, let nameEnd = text.lastIndex(of: ")"), text[nameEnd...].hasPrefix(") S") { return }
        sched_yield()
    }
}

extension ReactorTests {
    @Suite struct BusyTime {
        @Test func `Busy time includes the handlers of an iteration, but not the wait between iterations`() throws {
            let loop = try EventLoop()
            loop.iterationIntervalMicrosecondsMin = 1_000
            let recorder = EventRecorder()
            recorder.onFired = { tag in
                if tag == 4 { return loop.stop() }
                var began = timespec()
                var now = timespec()
                clock_gettime(CLOCK_MONOTONIC, &began)
                repeat {
                    clock_gettime(CLOCK_MONOTONIC, &now)
                } while (now.tv_sec - began.tv_sec) * 1_000_000_000 + now.tv_nsec - began.tv_nsec < 5_000_000
            }
            for tag in 1...4 as ClosedRange<UInt64> {
                _ = loop.schedule(afterMilliseconds: Int64(tag) * 400, handler: recorder, tag: tag)
            }
            let beganAtMicroseconds = loop.nowMicroseconds
            loop.run()
            #expect(loop.busyMicroseconds >= 15_000)
            // Between the four timers the loop waits three times for at least 200 ms. The busy time must not
            // include these waits.
            #expect(loop.busyMicroseconds <= loop.nowMicroseconds - beganAtMicroseconds - 3 * 200_000)
            #expect(loop.nowMicroseconds / 1_000 == loop.nowMilliseconds)
        }
    }

    @Suite struct Timers {
        @Test func `Timers fire in the order of their deadlines, then in the order of scheduling`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            for (tag, delay) in [(1, 6), (2, 2), (3, 4), (4, 2), (5, 0), (6, -5)] as [(UInt64, Int64)] {
                _ = loop.schedule(afterMilliseconds: delay, handler: recorder, tag: tag)
            }
            runLoop(loop) { recorder.firedTags.count == 6 }
            #expect(recorder.firedTags == [5, 6, 2, 4, 3, 1])
        }

        @Test func `A timer never fires early by the loop's clock`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let startMilliseconds = loop.nowMilliseconds
            var elapsedMilliseconds: Int64 = -1
            recorder.onFired = { _ in elapsedMilliseconds = loop.nowMilliseconds - startMilliseconds }
            _ = loop.schedule(afterMilliseconds: 20, handler: recorder, tag: 0)
            loop.runIteration(waitMilliseconds: 0)
            // The timer may fire only after 20 ms, measured from the first reading of the clock.
            #expect((elapsedMilliseconds == -1) == (loop.nowMilliseconds - startMilliseconds < 20))
            runLoop(loop) { elapsedMilliseconds >= 0 }
            #expect(elapsedMilliseconds >= 20)
            recorder.onFired = nil
        }

        @Test func `A cancelled timer does not fire, and cancelling again or after firing does nothing`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let cancelledTimer = loop.schedule(afterMilliseconds: 1, handler: recorder, tag: 1)
            let keptTimer = loop.schedule(afterMilliseconds: 1, handler: recorder, tag: 2)
            loop.cancel(cancelledTimer)
            loop.cancel(cancelledTimer)
            loop.cancel(.none)
            runLoop(loop) { !recorder.firedTags.isEmpty }
            #expect(recorder.firedTags == [2])
            // The new timer uses the old one's slot. The old id must not cancel the new timer.
            let reusedTimer = loop.schedule(afterMilliseconds: 1, handler: recorder, tag: 3)
            #expect(reusedTimer != keptTimer)
            loop.cancel(keptTimer)
            runLoop(loop) { recorder.firedTags.count == 2 }
            #expect(recorder.firedTags == [2, 3])
            #expect(loop.timerCount == 0)
        }

        @Test func `A timer that another timer schedules without a delay fires in the next iteration`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            recorder.onFired = { tag in
                if tag < 3 { _ = loop.schedule(afterMilliseconds: 0, handler: recorder, tag: tag + 1) }
            }
            _ = loop.schedule(afterMilliseconds: 0, handler: recorder, tag: 1)
            for expectedCount in 1...3 {
                loop.runIteration(waitMilliseconds: -1)
                #expect(recorder.firedTags.count == expectedCount)
            }
            recorder.onFired = nil
        }

        @Test func `Thousands of timers, half of them cancelled in random order, fire as in a sorted list`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            var generator = SystemRandomNumberGenerator()
            var timers: [(deadline: Int64, tag: UInt64, identifier: TimerIdentifier)] = []
            for tag in 0..<20_000 as Range<UInt64> {
                let delay = Int64.random(in: 0...40, using: &generator)
                let identifier = loop.schedule(afterMilliseconds: delay, handler: recorder, tag: tag)
                timers.append((delay, tag, identifier))
            }
            timers.shuffle(using: &generator)
            for timer in timers.prefix(10_000) { loop.cancel(timer.identifier) }
            #expect(loop.timerCount == 10_000)
            let expected = timers.dropFirst(10_000).sorted { ($0.deadline, $0.tag) < ($1.deadline, $1.tag) }.map(\.tag)
            runLoop(loop) { loop.timerCount == 0 }
            #expect(recorder.firedTags == expected)
        }

        @Test func `The longest possible delay of a timer does not overflow`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let timer = loop.schedule(afterMilliseconds: .max, handler: recorder, tag: 0)
            loop.runIteration(waitMilliseconds: 1)
            #expect(recorder.firedTags.isEmpty)
            loop.cancel(timer)
        }

        @Test func `A handler that is released with its cancelled timer may use the loop meanwhile`() throws {
            let loop = try EventLoop()
            let other = EventRecorder()
            let otherTimer = loop.schedule(afterMilliseconds: 1_000, handler: other, tag: 0)
            var recorder: EventRecorder? = EventRecorder()
            recorder?.onDeinit = { loop.cancel(otherTimer) }
            let timer = try loop.schedule(afterMilliseconds: 1_000, handler: #require(recorder), tag: 0)
            recorder = nil
            loop.cancel(timer)
            #expect(loop.timerCount == 0)
        }
    }

    @Suite struct Iterations {
        @Test func `The loop's run returns in the iteration of stop, and at once if stop came first`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            loop.stop()
            loop.run()
            recorder.onFired = { tag in if tag == 2 { loop.stop() } }
            for tag in 1...3 as ClosedRange<UInt64> {
                _ = loop.schedule(afterMilliseconds: Int64(tag) * 3, handler: recorder, tag: tag)
            }
            loop.run()
            #expect(recorder.firedTags.prefix(2) == [1, 2])
            recorder.onFired = nil
        }

        @Test func `Iteration-end handlers run after events and timers`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let pipeEnds = try makePipe()
            defer { for end in [pipeEnds.read, pipeEnds.write] { close(end) } }
            var order: [String] = []
            recorder.onReady = { _ in order.append("event") }
            recorder.onFired = { _ in order.append("timer") }
            recorder.onIterationEnd = { order.append("end") }
            try loop.add(descriptor: pipeEnds.write, interest: .writable, handler: recorder)
            _ = loop.schedule(afterMilliseconds: 0, handler: recorder, tag: 0)
            loop.callAtIterationEnd(recorder)
            loop.runIteration(waitMilliseconds: 0)
            #expect(order == ["event", "timer", "end"])
            loop.remove(descriptor: pipeEnds.write)
            recorder.onReady = nil
        }

        /// The signal handler is like a stop of the process (SIGSTOP): when it ends, a timer is due and input waits.
        @Test func `After a signal has interrupted the wait, events are dispatched before timers fire`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let pipeEnds = try makePipe()
            defer { for end in [pipeEnds.read, pipeEnds.write] { close(end) } }
            var order: [String] = []
            recorder.onReady = { _ in order.append("event") }
            recorder.onFired = { _ in order.append("timer") }
            try loop.add(descriptor: pipeEnds.read, interest: .readable, handler: recorder)
            pipeEndForSignalHandler = pipeEnds.write
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { _ in
                let code = errno
                while EventLoop.monotonicMilliseconds < signalHandlerEndMilliseconds {}
                var byte: UInt8 = 1
                _ = Glibc.write(pipeEndForSignalHandler, &byte, 1)
                errno = code
            }
            var formerAction = sigaction()
            sigaction(SIGUSR1, &action, &formerAction)
            defer { sigaction(SIGUSR1, &formerAction, nil) }
            // A test's own thread blocks all signals.
            var (signals, formerMask) = (sigset_t(), sigset_t())
            sigemptyset(&signals)
            sigaddset(&signals, SIGUSR1)
            pthread_sigmask(SIG_UNBLOCK, &signals, &formerMask)
            defer { pthread_sigmask(SIG_SETMASK, &formerMask, nil) }
            loop.refreshClock()
            _ = loop.schedule(afterMilliseconds: 1_000, handler: recorder, tag: 0)
            signalHandlerEndMilliseconds = loop.nowMilliseconds + 1_001
            let threadDirectory = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
            let (thread, hasSentSignal) = (pthread_self(), DispatchSemaphore(value: 0))
            Thread.detachNewThread {
                waitUntilThreadSleeps(threadDirectory)
                pthread_kill(thread, SIGUSR1)
                hasSentSignal.signal()
            }
            loop.runIteration(waitMilliseconds: -1)
            hasSentSignal.wait()
            #expect(order == ["event", "timer"])
            loop.remove(descriptor: pipeEnds.read)
            recorder.onReady = nil
            recorder.onFired = nil
        }

        @Test func `An iteration-end handler that registers again runs a few times, then in the next iteration`()
            throws
        {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            recorder.onIterationEnd = { loop.callAtIterationEnd(recorder) }
            loop.callAtIterationEnd(recorder)
            loop.runIteration(waitMilliseconds: 0)
            #expect(recorder.iterationEndCount == EventLoop.iterationEndPassesMax)
            // Iteration-end handlers are still registered, so the next iteration must not wait for events, even without
            // a time limit.
            loop.runIteration(waitMilliseconds: -1)
            #expect(recorder.iterationEndCount == 2 * EventLoop.iterationEndPassesMax)
            recorder.onIterationEnd = nil
        }

        /// The threads of a process share a corrected clock.
        @Test func `The wall clock is corrected from the next iteration on`() throws {
            let loop = try EventLoop()
            let wallClock = WallClock()
            loop.wallClock = wallClock
            wallClock.bootOffsetMilliseconds = WallClock.systemMilliseconds - WallClock.bootMilliseconds - 3_600_000
            #expect(abs(loop.wallMilliseconds - WallClock.systemMilliseconds) < 60_000)
            loop.runIteration(waitMilliseconds: 0)
            #expect(abs(loop.wallMilliseconds - WallClock.systemMilliseconds + 3_600_000) < 60_000)
        }

        @Test func `Both clocks advance`() throws {
            let loop = try EventLoop()
            let wall = Int64(time(nil)) * 1_000
            #expect(abs(loop.wallMilliseconds - wall) < 60_000)
            let millisecondsBefore = loop.nowMilliseconds
            usleep(3_000)
            #expect(loop.nowMilliseconds == millisecondsBefore)
            loop.refreshClock()
            #expect(loop.nowMilliseconds >= millisecondsBefore + 3)
        }
    }

    @Suite struct Descriptors {
        @Test func `A readable descriptor is reported in each iteration, while the handler is interested`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            let pipeEnds = try makePipe()
            defer { for end in [pipeEnds.read, pipeEnds.write] { close(end) } }
            try loop.add(descriptor: pipeEnds.read, interest: .readable, handler: recorder)
            loop.runIteration(waitMilliseconds: 0)
            #expect(recorder.events.isEmpty)
            #expect(Glibc.write(pipeEnds.write, "x", 1) == 1)
            loop.runIteration(waitMilliseconds: 0)
            loop.runIteration(waitMilliseconds: 0)
            #expect(recorder.events == [.readable, .readable])
            try loop.update(descriptor: pipeEnds.read, interest: [])
            loop.runIteration(waitMilliseconds: 0)
            #expect(recorder.events.count == 2)
            loop.remove(descriptor: pipeEnds.read)
        }

        @Test func `A descriptor that cannot be watched is an error`() throws {
            let loop = try EventLoop()
            let recorder = EventRecorder()
            #expect(throws: SystemError(code: EBADF, operation: "epoll_ctl add")) {
                try loop.add(descriptor: -1, interest: .readable, handler: recorder)
            }
            #expect(throws: SystemError(code: EMFILE, operation: "epoll_ctl add")) {
                try loop.add(descriptor: .max, interest: .readable, handler: recorder)
            }
            #expect(throws: SystemError(code: ENOENT, operation: "epoll_ctl update")) {
                try loop.update(descriptor: 0, interest: .readable)
            }
            loop.remove(descriptor: 0)
            loop.remove(descriptor: -1)
        }

        @Test func `An event of the same batch is dropped when its descriptor was removed or replaced`() throws {
            let loop = try EventLoop()
            let pipes = try (makePipe(), makePipe())
            let recorders = (EventRecorder(), EventRecorder(), EventRecorder())
            var swapCount = 0
            // The handler that runs first replaces the other descriptor by a new pipe with the same number,
            // which has nothing to read.
            func replace(_ other: Int32) {
                swapCount += 1
                loop.remove(descriptor: other)
                guard let freshPipe = try? makePipe(), dup2(freshPipe.read, other) == other else { return }
                close(freshPipe.read)
                close(freshPipe.write)
                #expect(throws: Never.self) {
                    try loop.add(descriptor: other, interest: .readable, handler: recorders.2)
                }
                try? loop.update(descriptor: other, interest: [])
            }
            recorders.0.onReady = { _ in if swapCount == 0 { replace(pipes.1.read) } }
            recorders.1.onReady = { _ in if swapCount == 0 { replace(pipes.0.read) } }
            try loop.add(descriptor: pipes.0.read, interest: .readable, handler: recorders.0)
            try loop.add(descriptor: pipes.1.read, interest: .readable, handler: recorders.1)
            for pipe in [pipes.0, pipes.1] { #expect(Glibc.write(pipe.write, "x", 1) == 1) }
            loop.runIteration(waitMilliseconds: 0)
            #expect(swapCount == 1)
            #expect(recorders.0.events.count + recorders.1.events.count == 1)
            #expect(recorders.2.events.isEmpty)
            for descriptor in [pipes.0.read, pipes.1.read] { loop.remove(descriptor: descriptor) }
            for pipe in [pipes.0, pipes.1] { for end in [pipe.read, pipe.write] { close(end) } }
            recorders.0.onReady = nil
            recorders.1.onReady = nil
        }

        @Test func `The loop releases a handler when it is removed, and the handler may use the loop meanwhile`()
            throws
        {
            let loop = try EventLoop()
            let pipeEnds = try makePipe()
            defer { for end in [pipeEnds.read, pipeEnds.write] { close(end) } }
            var isReleased = false
            do {
                let recorder = EventRecorder()
                recorder.onDeinit = {
                    loop.remove(descriptor: pipeEnds.write)
                    isReleased = true
                }
                try loop.add(descriptor: pipeEnds.read, interest: .readable, handler: recorder)
            }
            #expect(!isReleased)
            loop.remove(descriptor: pipeEnds.read)
            #expect(isReleased)
        }
    }
}
