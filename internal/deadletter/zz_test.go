package deadletter_test
import ("testing";"time";"github.com/google/uuid";"github.com/twmb/franz-go/pkg/kgo")
func TestZZ(t *testing.T){
 w:=newWorld(t); var rs []*kgo.Record
 for i:=range 10000 { rs=append(rs,w.dead(uuid.New(),int64(i))) }
 w.kafka.Produce(rs...)
 b:=time.Now(); w.ingest(0); w.listed(10000); t.Log("ingest", time.Since(b))
 b=time.Now(); res,err:=w.replayer(w.publisher).Replay(t.Context(), w.request()); t.Log(res.Replayed, err, time.Since(b))
}
