import Glibc
import Kafka
import Testing

@Suite struct EmbeddedBrokerTests {
    /// The mock cluster ends the process if it does not get its port back.
    @Test func aBrokerComesBackWhileAProgramRunsThatThisProcessHasStarted() throws {
        let broker = try EmbeddedBroker()
        var child: pid_t = 0
        let words: [UnsafeMutablePointer<CChar>?] = [strdup("/bin/sleep"), strdup("60"), nil]
        defer { for word in words { free(word) } }
        try #require(posix_spawn(&child, "/bin/sleep", nil, nil, words, environ) == 0)
        defer {
            kill(child, SIGKILL)
            waitpid(child, nil, 0)
        }
        for _ in 0..<2 {
            try broker.takeDown()
            try broker.bringUp()
        }
    }
}
